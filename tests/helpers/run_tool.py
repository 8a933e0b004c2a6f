"""Run a tool several times in one process: ``run_tool.py TOOL``, with a JSON list of argument lists on stdin.

Prints a JSON list: for each the exit code, what it wrote to stdout and stderr, and whether MindSpore was loaded.
"""
import contextlib
import io
import json
import runpy
import sys


def outcome(tool, arguments):
    """Run ``tool`` as from the command line."""
    sys.argv = [tool, *arguments]
    out, err = io.StringIO(), io.StringIO()
    code = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(tool, run_name='__main__')
        except SystemExit as exit_:
            code = exit_.code
    return {'code': code, 'out': out.getvalue(), 'err': err.getvalue(), 'mindspore': 'mindspore' in sys.modules}


if __name__ == '__main__':
    tool = sys.argv[1]
    print(json.dumps([outcome(tool, arguments) for arguments in json.load(sys.stdin)]))
