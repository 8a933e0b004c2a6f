"""Reading and writing recipes: YAML file and ``--set`` overrides in, one clear sentence out when they are wrong."""
import difflib
import re
from pathlib import Path
from typing import get_args

import yaml
from pydantic import BaseModel, ValidationError

from hcma.errors import InputError
from hcma.recipe import Recipe


class _Loader(yaml.SafeLoader):
    """YAML as people write it: ``3e-3`` is a number, a date is text, and a key given twice is refused."""

    yaml_implicit_resolvers = {first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(':timestamp')]
                               for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f'{key.start_mark.name}, line {key.start_mark.line + 1}: a key must be a word')
            if key.value in seen:
                raise InputError(f'{key.start_mark.name}, line {key.start_mark.line + 1}: '
                                 f'the key {key.value!r} is given twice; keep one')
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver('tag:yaml.org,2002:float', re.compile(r'[-+]?\d+(\.\d*)?[eE][-+]?\d+$'), '-+0123456789')


def load_recipe(path, overrides=()):
    """Read the YAML file ``path``, apply ``section.key=value`` overrides, and return a checked ``Recipe``.

    Raises ``InputError`` naming the file, the key's path, the value read and what is allowed.
    """
    path = Path(path)
    values = _read_yaml(path)
    for override in overrides:
        _apply(values, override)
    return parse_recipe(values, str(path))


def parse_recipe(values, where):
    """Check the nested dict ``values``; ``where`` (a file name) opens the error sentence."""
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise InputError(f'{where}: {_sentence(error.errors()[0], values)}') from None


def dump_recipe(recipe):
    """The resolved recipe as YAML text, which reads back as an equal recipe."""
    return yaml.safe_dump(recipe.model_dump(mode='json'), sort_keys=False, allow_unicode=True)


def _read_yaml(path):
    try:
        with open(path, encoding='utf-8-sig') as file:
            values = yaml.load(file, _Loader)
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob('*.yaml')], 1)
        hint = f'; did you mean {path.parent / near[0]}?' if near else '; give the path of a recipe (YAML)'
        raise InputError(f'{path}: no such recipe{hint}') from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f'{path}: cannot be read ({error}); give a YAML file in UTF-8') from None
    except yaml.YAMLError as error:
        mark = getattr(error, 'problem_mark', None)
        line = f', line {mark.line + 1}' if mark else ''
        raise InputError(f'{path}{line}: not valid YAML ({getattr(error, "problem", error)})') from None
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise InputError(f'{path}: a recipe is a mapping of keys to values, this is a {type(values).__name__}')
    return values


def _apply(values, override):
    key, equals, text = override.partition('=')
    if not equals or not key:
        raise InputError(f'--set {override}: write it as section.key=value, such as train.epochs=3')
    try:
        value = yaml.load(text, _Loader)
    except yaml.YAMLError:
        value = text
    *sections, last = key.split('.')
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise InputError(f'--set {override}: {section} is a value, not a section')
    values[last] = value


def _sentence(error, values):
    path = [part for part in error['loc'] if not str(part).startswith('function-')]
    if error['type'] == 'extra_forbidden':
        return _unknown_key(path, error['input'])
    dotted = '.'.join(str(part) for part in path)
    if error['type'] == 'missing':
        return f'{dotted}: is missing; give it a value'
    message = error['msg'].removeprefix('Value error, ')
    if error['type'] == 'value_error' and ': ' in message:
        key, message = message.split(': ', 1)
        return f'{dotted}.{key}: {message}'.lstrip('.')
    shown = error['input'] if not isinstance(error['input'], (dict, BaseModel)) else 'a section'
    near = _near_value(error, shown)
    return f'{dotted or "recipe"}: {_lower(message)}, but it is {shown!r}{near}'


def _unknown_key(path, value):
    allowed = _keys_at(path[:-1])
    near = difflib.get_close_matches(str(path[-1]), allowed, 1, 0.5)
    hint = f'did you mean {near[0]!r}? ' if near else ''
    dotted = '.'.join(str(part) for part in path)
    return f'{dotted}: unknown key (its value: {value!r}); {hint}allowed here: {", ".join(allowed)}'


def _keys_at(path):
    section = Recipe
    for part in path:
        annotation = section.model_fields[part].annotation
        section = next(iter(get_args(annotation)), annotation)  # a section that may be left out is Optional
    return list(section.model_fields)


def _near_value(error, shown):
    if error['type'] != 'literal_error' or not isinstance(shown, str):
        return ''
    allowed = [word.strip("'") for word in error['ctx']['expected'].replace(' or ', ', ').split(', ')]
    near = difflib.get_close_matches(shown, allowed, 1, 0.5)
    return f'; did you mean {near[0]!r}?' if near else ''


def _lower(text):
    return text[:1].lower() + text[1:].rstrip('.')
