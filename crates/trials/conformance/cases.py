"""Prints what came of each case of CPython's tests, from the file that `--junit-xml` names: "NAME<tab>OUTCOME"."""
import sys
from xml.etree import ElementTree

for case in ElementTree.parse(sys.argv[1]).iter('testcase'):
    said = [part.tag for part in case if not part.tag.startswith('system-')]
    # A failure that is expected comes with its output, and nothing else.
    print(case.get('name'), 'passed' if not said else said[0], sep='\t')
