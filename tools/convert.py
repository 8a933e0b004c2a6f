"""Convert weights: ``tools/convert.py FROM --to DIR`` into hcma, ``tools/convert.py RUN --to-hf DIR`` back.

| FROM                                       | holds                                                              |
|--------------------------------------------|--------------------------------------------------------------------|
| a Hugging Face folder                      | CLIP, Chinese-CLIP or SigLIP: config.json, weights, tokenizer      |
| an open_clip folder                        | open_clip_config.json and its weights                              |
| .safetensors, .pt, .bin, .pth              | a state dict of OpenAI's CLIP, open_clip or Chinese-CLIP           |

DIR becomes a checkpoint with the same features, logits and tokens, to evaluate or to train on (model.weights).
Every tensor is used, or the command fails with a list. Pickled files need torch. --to-hf writes what transformers'
CLIPModel and CLIPProcessor load.
"""
import argparse

from hcma import cli
from hcma.errors import InputError


def main():
    """Convert in the one direction or the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('source', metavar='FROM', help='weights of another project; with --to-hf a run or checkpoint')
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument('--to', metavar='DIR', help='the checkpoint to write')
    target.add_argument('--to-hf', metavar='DIR', help='the Hugging Face folder to write')
    parser.add_argument('--tokenizer', metavar='PATH', help='tokenizer.json, vocab.json (merges.txt beside), vocab.txt '
                        'or bpe_simple_vocab_16e6.txt.gz, or a folder with one; default: beside the weights')
    parser.add_argument('--activation', choices=('quick_gelu', 'gelu'), help='of a state dict that does not tell it')
    parser.add_argument('--config', metavar='JSON', help="open_clip's config of a state dict")
    parser.add_argument('--text-length', metavar='N', type=cli.positive, help='keep only the first N text positions')
    parser.add_argument('--overwrite', action='store_true', help='replace a DIR that an earlier conversion wrote')
    arguments = parser.parse_args()
    given = [name for name in ('tokenizer', 'activation', 'config', 'text_length') if getattr(arguments, name)]
    if arguments.to_hf is not None and given:
        raise InputError(f'--{given[0].replace("_", "-")}: is for --to; leave it out with --to-hf')

    from hcma import backend  # loads MindSpore
    backend.set_up('pynative')
    if arguments.to is not None:
        from hcma.interop.convert import Options, convert
        options = Options(arguments.tokenizer, arguments.activation, arguments.config, arguments.text_length)
        lines = convert(arguments.source, arguments.to, options, arguments.overwrite)
    else:
        from hcma.interop.to_hugging_face import to_hugging_face
        lines = to_hugging_face(arguments.source, arguments.to_hf, arguments.overwrite)
    print('\n'.join([*lines, f'wrote {arguments.to or arguments.to_hf}']))


if __name__ == '__main__':
    cli.run(main)
