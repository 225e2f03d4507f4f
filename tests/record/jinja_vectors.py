"""Records how Jinja2 renders many templates: tests/vectors/jinja.json.

    python jinja_vectors.py OUTPUT          a sample small enough to commit
    python jinja_vectors.py --lines OUTPUT  every case, as lines for `render_lines` and `jinja_lines.py`

The cases are combinations of values with filters, tests, methods and operators, and the templates of
`jinja_expressions.py` and `jinja_statements.py`. A case without output must fail.
"""

import itertools
import json
import random
import re
import sys

from jinja_expressions import EXPRESSIONS
from jinja_lines import chat_environment, prompt_environment
from jinja_statements import CHAT, CHAT_DOC, STATEMENTS, TRICKY

DOC = {
    "q": "What's up?", "n": 3, "neg": -7, "f": 0.1, "half": 2.5, "big": 10**30, "huge": 1e22, "small": 1e-7,
    "t": True, "no": False, "none": None, "e": "", "s": "  pad \n", "u": "naïve 日本 ß", "num": "12", "fl": "3.7",
    "l": ["a", "b'c", 'd"e'], "ln": [3, 1.5, 2, True], "lm": [1, "a", None], "el": [], "dup": ["a", "B", "A", "b", "a"],
    "d": {"text": ["x", "y"], "label": ["A", "B"]}, "ed": {}, "di": {"b": 2, "a": 1, "C": 3}, "items": {"items": 5, "k": 1},
    "nested": [{"k": "v", "g": 1, "x": {"y": 2}}, {"k": "w", "g": 2}, {"k": "A", "g": 1}], "multi": "a\nb\n\nc d\n",
    "html": "<b>x & 'y'</b> <!-- c --> &amp; &eacute;&#39;", "url": "see http://a.com/x, www.b.org (c@d.net).",
    "long": "The quick brown fox jumps over the well-known lazy dog--and then some-thing e-mails two-part words.",
    "ll": [[1, 2], [3, 4]], "pairs": [["a", 1], ["b", 2]], "tab": "a\tb", "self": "me", "loop": "lp", "with space": 1,
}

VALUES = [
    "q", "n", "neg", "f", "half", "big", "huge", "small", "t", "no", "none", "e", "s", "u", "num", "fl", "l", "ln", "lm",
    "el", "dup", "d", "ed", "di", "nested", "multi", "html", "url", "long", "ll", "pairs", "missing", "d.missing",
    "(1, 'a')", "(1,)", "()", "range(4)", "di.items()", "di.keys()", "('<a>'|safe)", "('x' if no)", "-0.0", "1e16", "[missing]",
    "-2", "'a-b c_d 1x'", "'abc'", "[1, [2, {'a': (3,)}]]", "{'a': none, 1: true}", "l|map('upper')", "tab",
]

FILTERS = """abs|attr('upper')|attr('missing')|attr('text')|batch(2)|list|batch(2, 'z')|list|capitalize|center|center(9)|count
default('D')|default('D', true)|d|default|dictsort|dictsort(true)|dictsort(false, 'value')|dictsort(by='value', reverse=true)
dictsort(by='x')|e|escape|filesizeformat|filesizeformat(true)|first|float|float(1.5)|float(default='x')|forceescape|format(1)
groupby('k')|groupby('g')|groupby('zz', default=0)|groupby(0)|indent|indent(2)|indent(2, true)|indent('>>', blank=true)
int|int(7)|int(base=16)|int(default=none)|items|list|join|join(', ')|join('-', attribute='k')|join(1)|last|length|list|lower
map('upper')|list|map(attribute='k')|list|map(attribute='g', default=9)|list|map('int')|join('/')|map('nope')|list|map|list
map(attribute='x.y')|list|map(attribute=0)|list|max|max(attribute='g')|max(case_sensitive=true)|min|min(attribute='k')|pprint|reject|list
reject('none')|list|reject('odd')|list|rejectattr('k')|list|rejectattr('g', 'eq', 1)|list|replace('a', 'Z')|replace('', '.')
replace('a', 'b', 1)|replace(1, 2)|replace(old='b', new=none)|reverse|reverse|list|round|round(1)|round(2, 'floor')|round(0, 'ceil')
round(-1)|round(method='x')|safe|select|list|select('string')|list|select('gt', 1)|list|selectattr('k', 'in', ['v'])|list
selectattr('x')|list|selectattr('g', 'defined')|list|slice(2)|list|slice(3, 'f')|list|sort|sort(reverse=true)
sort(case_sensitive=true)|sort(attribute='k')|sort(attribute='g,k')|sort(true, attribute='g')|string|striptags|sum|sum(start=10)
sum(attribute='g')|title|tojson|tojson(2)|tojson(indent=1)|trim|trim('a ')|trim(chars='<x')|truncate|truncate(8)|truncate(9, true)
truncate(8, false, '~', 0)|truncate(2)|unique|list|unique(true)|list|unique(attribute='g')|list|upper|urlencode|urlize
urlize(10, true)|urlize(target='_blank', rel='x a')|wordcount|wordwrap(10)|wordwrap(10, false)|wordwrap(20, break_on_hyphens=false)
wordwrap(8, true, '|')|xmlattr|xmlattr(false)|letter_choices|letter_choices(' ', ') ')|answer_key_to_index|answer_key_to_index(l)
regex_replace('[aeiou]', '*')|regex_replace('(\\\\w)(\\\\w)', '\\\\2\\\\1', 1)|regex_replace('(', 'x')|upper(1)|length(1)|nope|batch|replace('a')
string|length|list|length|first|upper|join|length|tojson|e|trim|length|map('string')|map('length')|list|select('defined')|map('e')|join""".replace(
    "\n", "|"
)

TESTS = """boolean|callable|defined|divisibleby 3|divisibleby(num=2)|divisibleby 0|eq 3|eq(n)|== 'a'|equalto none|escaped|even|false|filter|float
ge 2|gt 0|greaterthan 0|in l|in 'abc'|in [n, missing]|integer|iterable|le 1|lower|lt 5|lessthan 5|mapping|ne 3|none|number|odd|sameas none
sameas t|sequence|string|test|true|undefined|upper|nope|not defined|not none|eq|defined(1)""".replace("\n", "|").split("|")

METHODS = {
    "q l[1] u s multi long html tab num 'ab12' 'ABC' 'x' e '\\u00df\\u0130' ('<'|e)": """upper() lower() title() capitalize() swapcase() casefold()
strip() lstrip() rstrip() strip(' a') strip(none) strip('x','y') split() split(' ') split('') split(none,1) split(sep='a',maxsplit=1) rsplit(' ',1)
rsplit(none,1) splitlines() splitlines(true) splitlines(keepends=true) partition('a') rpartition(' ') replace('a','b') replace('a','b',1)
replace('','-') removeprefix('W') removesuffix('?') find('a') find('a',2) find('a',1,-1) rfind('a') index('zz') rindex('a') count('a') count('') count('a',1)
startswith('W') startswith(('a','W')) startswith('h',1) endswith('?') endswith(('?',)) startswith(1) join(l) join(['a',1]) join('xyz') center(12) center(12,'*') center(3,'ab')
ljust(8)~'|' rjust(8,'.') zfill(8) expandtabs() expandtabs(3) isalnum() isalpha() isascii() isdecimal() isdigit() isidentifier() islower()
isnumeric() isprintable() isspace() istitle() isupper() format(1) encode() encode().decode() translate({97:'X',98:none}) upper(1) nope() upper""".split(),
    "l ln lm el dup ll nested [3,1,2] (1,2,1) ()": """index('a') index(1) index(2,1) index('zz') count('a') count(1) copy() append(4) extend([1,2]) insert(0,'z') pop() pop(0)
pop(9) remove('a') remove(1) reverse() sort() sort(reverse=true) clear() index() append(1,2) nope() extend(1)""".split(),
    "d di ed items {'a':{'b':1}}": """get('a') get('zz') get('zz',1) items()|list keys()|list values()|list items() keys() values() pop('a') pop('zz') pop('zz',3) popitem()
setdefault('a',9) setdefault('z',9) update({'q':1}) update(z=2) copy() clear() fromkeys(['x','y'],0) get() nope() get([1]) a.b b items items['k'] text[0] label.0""".split(),
    "n neg big t half huge f (2.0)": "bit_length() conjugate() real imag numerator is_integer() as_integer_ratio() bit_count() denominator nope() upper()".split(),
    "range(5) range(10,0,-3) range(0)": "index(2) count(1) start stop step [1] [-1] [1:3] [::-1]|list nope".split(),
}

OPERANDS = [
    "n", "neg", "half", "-2.5", "big", "t", "none", "q", "num", "l", "(1, 2)", "missing", "0", "0.0", "d", "e", "2", "-3", "7.0", "10**20", "('<'|e)", "'%s'",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]

FORMATS = [
    "'%s' % n", "'%s %s' % (n, q)", "'%05.2f' % half", "'%d' % half", "'%x %X %o' % (255, 255, 8)", "'%#x' % 255", "'%+d' % n", "'% d' % n", "'%-5s|' % n",
    "'%5s|' % n", "'%05d' % neg", "'%e' % huge", "'%E' % small", "'%g' % huge", "'%g' % f", "'%G' % small", "'%.3g' % 1234567", "'%c' % 'x'", "'%c' % 65",
    "'%r' % q", "'%a' % u", "'%%'", "'%% %s' % 1", "'%(a)s' % {'a': 1}", "'%(a)5.1f|' % {'a': 1}", "'%s' % l", "'%s' % (l,)", "'%s %s' % l", "'x' % 1", "'x' % ()",
    "'x' % l", "'%s'", "'%s' % ()", "'%d' % q", "'%z' % 1", "'%' % 1", "'%*d' % (5, 3)", "'%.*f' % (2, half)", "'%s' % missing", "'%s' % none", "'%.2s' % 'abc'",
    "'%s' % ('<'|safe)", "('<%s>'|safe) % '<'", "'%i' % true", "'%f' % n", "'%f' % num", "'%5.1f%%' % 12.34", "'%d' % big", "'%.10f' % f", "'%#.0f' % n",
    "'{}'.format(n)", "'{} {}'.format(n, q)", "'{0} {1} {0}'.format(n, q)", "'{a}'.format(a=1)", "'{a[0]}'.format(a=l)", "'{a.real}'.format(a=n)", "'{:>5}|'.format(n)",
    "'{:<5}|'.format(n)", "'{:^6}|'.format('ab')", "'{:*^7}'.format('ab')", "'{:05d}'.format(neg)", "'{:.2f}'.format(half)", "'{:,}'.format(1234567)", "'{:_}'.format(1234567)",
    "'{:,.2f}'.format(1234567.891)", "'{:e}'.format(huge)", "'{:g}'.format(f)", "'{:%}'.format(f)", "'{:.1%}'.format(0.256)", "'{:x} {:#X} {:b} {:o} {:#b}'.format(255,255,5,8,5)",
    "'{:c}'.format(65)", "'{!r}'.format(q)", "'{!s:>12}'.format(q)", "'{!a}'.format(u)", "'{:{w}}|'.format(n, w=6)", "'{:{}}|'.format(n, 6)", "'{{}}'.format()", "'{'.format()",
    "'}'.format()", "'{} {0}'.format(1)", "'{}'.format()", "'{:s}'.format(n)", "'{:d}'.format(q)", "'{:.2}'.format('abc')", "'{:.3}'.format(3.14159)", "'{:.3}'.format(1234.5)",
    "'{:10.3f}|'.format(half)", "'{:+}'.format(n)", "'{: }'.format(n)", "'{:=+8}'.format(n)", "'{:08,}'.format(12345)", "'{}'.format(none)", "'{:5}'.format(none)", "'{}'.format(t)", "'{:d}'.format(t)",
    "'{:5}'.format(t)", "'{}'.format(l)", "'{:n}'.format(1234)", "'{:.0f}'.format(2.5)", "'{:.0f}'.format(3.5)", "'{}'.format(1e16)", "'{:g}'.format(1e16)", "'{:.5}'.format(100.0)", "'{0[k]}'.format({'k': 1})",
    "'{0.nope}'.format(n)", "'{:q}'.format(n)", "'{a}'.format_map({'a': 4})", "('{}'|safe).format('<')", "'{:e}'.format(0)", "'{:G}'.format(1e-10)", "'{:#.3g}'.format(1)", "'{:<05}'.format(3)", "'{:>+6.1f}'.format(-0.05)",
]


def split_filters():
    depth, current, parts = 0, "", []
    for character in FILTERS + "|":
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        if character == "|" and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    # `list` and similar filters after one that returns a generator belong to it.
    followers = {"list", "join('/')", "join", "length", "upper", "e"}
    result = []
    for part in parts:
        if part in followers and result and result[-1].split("|")[-1].split("(")[0] in GENERATORS:
            result[-1] += "|" + part
        else:
            result.append(part)
    return list(dict.fromkeys(result))


# Memory addresses change with every run, and complex numbers are not supported.
VARYING = re.compile(r"generat|object|<function|<class|bound method|\dj\)|\.o\.b\.j", re.I)

GENERATORS = {"batch", "map", "select", "reject", "selectattr", "rejectattr", "slice", "unique", "reverse", "items"}


def cases():
    for value, name in itertools.product(VALUES, split_filters()):
        # The word count of a printed generator depends on the Python version.
        if (value, name) != ("l|map('upper')", "wordcount"):
            yield "filter", "{{ " + value + "|" + name + " }}"
    for value, test in itertools.product(VALUES, TESTS):
        yield "test", "{{ " + value + " is " + test + " }}"
    for receivers, calls in METHODS.items():
        for receiver, call in itertools.product(receivers.split(), calls):
            joined = receiver + call if call.startswith("[") else receiver + "." + call
            yield "method", "{{ " + joined + " }}{{ " + receiver + " }}"
    for left, operator, right in itertools.product(OPERANDS, OPERATORS, OPERANDS):
        if operator == "**" and "10**20" in right or operator == "**" and right == "big" or (left, operator) == ("q", "*") and "big" in right:
            continue
        yield "operator", "{{ " + left + " " + operator + " " + right + " }}"
    for value in VALUES + EXPRESSIONS + FORMATS:
        yield "expression", "{{ " + value + " }}"
    for template in STATEMENTS + TRICKY:
        yield "statement", template
    for template in CHAT:
        yield "chat", template


def record():
    environments = {False: prompt_environment(), True: chat_environment()}
    for kind, template in dict.fromkeys(cases()):
        chat = kind == "chat"
        doc = json.loads(json.dumps(CHAT_DOC if chat else DOC))
        try:
            out = environments[chat].from_string(template).render(doc)
        except Exception:
            out = None
        # No prompt is longer than this, and huge numbers only slow the tests down.
        if out is not None and (VARYING.search(out) or len(out) > 4000):
            continue
        yield kind, template, out


def main():
    random.seed(1)
    if sys.argv[1] == "--lines":
        with open(sys.argv[2], "w") as file:
            for kind, template, out in record():
                chat = kind == "chat"
                doc = CHAT_DOC if chat else DOC
                file.write(json.dumps({"template": template, "doc": doc, "chat": chat, "out": out}) + "\n")
        return
    kept = {"filter": 0.28, "test": 0.3, "method": 0.75, "operator": 0.14}
    groups = {}
    for kind, template, out in record():
        if random.random() < kept.get(kind, 1):
            groups.setdefault(kind, []).append([template, out] if out is not None else [template])
    vectors = {"doc": DOC, "chat_doc": CHAT_DOC, "cases": groups}
    with open(sys.argv[1], "w") as file:
        json.dump(vectors, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
