"""Records what Jinja2 makes of many templates: tests/vectors/jinja.json.

    python jinja_vectors.py OUTPUT          a sample small enough to be kept
    python jinja_vectors.py --lines OUTPUT  every case, as lines for `render_lines` and `jinja_lines.py`

The cases are combinations of values with filters, tests, methods and operators, and hand-written templates for
statements, scopes, whitespace and mistakes. A case without output is one that must fail.
"""

import itertools
import json
import random
import re
import sys

from jinja_lines import chat_environment, prompt_environment

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

EXPRESSIONS = """1 + 2 * 3 - 4 / 2
2 ** 3 ** 2
-2 ** 2
2 ** -1
not t and no or n
not n in ln
n not in ln
1 < 2 < 3
1 < 2 > 5 == 3
3 == 3.0 == true
1_000 + 0x1f + 0b11 + 0o17
1e5
1.5e-3
1_0.2_5
012
5.real
'a' 'b' "c"
'it\\'s \\x41 \\u00e9 \\n \\d \\101 \\\\'
'\\q\\'
"\\N{DASH}"
l[0], l[1]
l[::-1]
l[1:]
l[-1]
l[:-1]
l[5]
l[5] is defined
l['0']
l[0:2:1][0]
q[2:5] ~ q[-1] ~ q[::2]
q[0]
u[2] ~ u[-1] ~ u[1:4]
q[99]
q[1:99]
d['text'][0]
d.text.1
d['nope'] is undefined
items.items
items['items']
d[none]
none.x
none[0]
n.x is defined
missing.x
missing['x']
missing is defined
missing|default('x')|upper
d.no.x|default('y')
d.no|default('y')
missing == 1
missing in l
1 in missing
missing and 1
no and missing
t or missing
not missing
[missing]
[missing][0] is defined
{'a': missing}
{missing: 1}
(missing,)
missing ~ 'x'
-missing
missing()
missing(1)
'a' if no
('a' if no) is defined
('a' if no) ~ 'x'
('a' if no)|length
('a' if no).x
('a' if no) == ('b' if no)
('a' if no)|default('z')
[('a' if no)]
('a' if no) + 'x'
'a' if t else 'b' if no else 'c'
'a' if no else 'b' if no
'a' if t if no else 'z'
(1 if t else 2) + 1
{'a': 1, 'b': [1, 2]}.b[1]
{'a': 1,}
[1, 2,]
(1, 2,)
{}
()
[]
{'a': 1, 'a': 2}
{[1]: 2}
{(1, 2): 3}
{1: 'a', true: 'b', 1.0: 'c'}
range(3)
range(2, 8, 3)|list
range(5, 0, -2)|list
range(3.0)
range(1, 2, 0)
range('a')
range()
dict(a=1, b=2)
dict([['a', 1], ('b', 2)])
dict({'a': 1}, b=3)
dict(1)
dict(l)
dict(**di)
dict(*[{'z': 1}])
namespace(a=1).a
namespace({'x': 2}).x
namespace(a=1)
namespace().x is defined
cycler('a', 'b').next()
cycler()
joiner()()
joiner('|')() ~ 'x'
self
self.x is defined
loop
zip(l, l)
l|zip(l)
q.split(' ')[0].upper()|lower
q.upper
q.nope
q.nope()
n()
'x' is string and n is number
n is not string
n is divisibleby 3
n is divisibleby(3) and t
l is iterable and l is sequence
n is eq 3 or no
n is in [1, 3]
n is in(ln)
q is string is true
n is defined if t
n|abs is eq 3
neg|abs
-neg|abs
-1|abs
(-1)|abs
1 - -1
+n
--n
- - n
not not n
n|string + 'x'
n|string|length
'a'|upper ~ 'b'|upper
'a' + 'b'|upper
('a' + 'b')|upper
2 * 'ab'
'ab' * -1
[1] * 2 + [3]
(1,) * 2
'a' * 2.0
[1] + (2,)
'a' + 1
1 + 'a'
l + 'a'
none + 1
t + t
t * 2.5
7 // 2, -7 // 2, 7 // -2, 7.5 // 2, -7.5 // 2
7 % 3, -7 % 3, 7 % -3, -7.5 % 2, 7.5 % -2, 5 % 2.5
1 / 3, 4 / 2, 1 / 0
1 // 0
1 % 0
1.0 / 0
0 ** 0, 0.0 ** 0, 2 ** 0.5, 2.0 ** 3
0 ** -1
10 ** 400
10.0 ** 400
(10 ** 30) / (10 ** 10)
(10 ** 400) / (10 ** 399)
(10 ** 400) / 3
1e308 * 10
-(10 ** 20) // 3, -(10 ** 20) % 3
9223372036854775807 + 1
-9223372036854775808 - 1
9223372036854775807 * 9223372036854775807
9007199254740993 / 1
9007199254740993 == 9007199254740993.0
1 == true, 0 == false, '1' == 1, none == false
l == ['a', "b'c", 'd"e'], (1,) == [1]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
'a' < 'b', 'B' < 'a', 'a' < 'aa'
[1, 2] < [1, 3], [1] < [1, 0], (1, 2) < (1, 'a')
(1, 'a') < (1, 2)
[1] < (1,)
'a' < 1
none < 1
t < 2, 1 < 1.5, 10**20 > 1e19
d < d
nan
1e999, -1e999, 1e999 - 1e999
'Wh' in q, '' in q, 'zz' not in q
1 in q
'text' in d, 'x' in d.values(), ('label', ['A', 'B']) in d.items()
[1] in d
2 in range(5), 7 in range(5)
1 in 5
none in [none]
1.0 in ln, '3' in ln
d.items()|list
d.keys()|sort
d.values()|list|first
di|length
di|list
di|sort
di|join(',')
di.items()|sort(attribute='1')|map('first')|join
di|dictsort|map('last')|list
[3, 1, 2]|sort|first
['b', 'A', 'a', 'B']|sort
['b', 'A', 'a', 'B']|sort(case_sensitive=true)
[1, 'a']|sort
[none, 1]|sort
[[2, 1], [1, 2]]|sort
[3, 1.5, true]|max
[]|first is defined
[]|last
[]|max
[]|random
''|first
l|first|upper
nested|map(attribute='k')|join(',')
nested|groupby('g')|map(attribute='grouper')|list
nested|groupby('g')|map(attribute='list')|map('length')|list
(nested|groupby('g'))[0].list[0].k
nested|selectattr('g', 'equalto', 1)|map(attribute='k')|list
nested|selectattr('x', 'defined')|list|length
nested|sum(attribute='g')
nested|map(attribute='x.y')|list
nested|map(attribute='nope')|list
nested|map(attribute='x.y', default=0)|list
l|map('replace', 'b', 'X')|list
l|map('nope')
l|map('nope')|list
[]|map('nope')|list
l|select|list
lm|select|list
lm|reject|list
l|select('nope')|list
l|batch(2)|map('join', '-')|join('|')
l|map('upper')|length
l|map('upper')|first
l|map('upper') is iterable
l|map('upper') is sequence
(l|map('upper'))[0] is defined
l|tojson|safe
q|e|e
q|e|safe|upper
('<'|e) + '<'
'<' + ('>'|e)
'<' ~ ('>'|e)
[('<'|e), '<']|join
['<'|safe]
('a'|safe) * 2
('<b>'|safe)|escape
'<b>'|safe|forceescape
('a,b'|safe).split(',')
('a'|safe).join(['<', 'x'|safe])
('a'|safe)|string|e
'a b'|urlencode, 'a/b?c=d&é'|urlencode, {'a b': 'c/d', 'e': 1}|urlencode, [('x', 1)]|urlencode
12|urlencode
1024|filesizeformat, 1000|filesizeformat, 1|filesizeformat, 123456789|filesizeformat, 1e30|filesizeformat, '2000'|filesizeformat
2.5|round, 3.5|round, 2.675|round(2), 1234.5|round(-2), 15|round(-1), 25|round(-1), -2.5|round, 0.5|round, 1e300|round(2)
2.5|round|int, 7.0|round, 7|round(2), 3.14159|round(3, 'ceil'), 3.1|round(method='floor'), 5|round(1, 'floor')
'0x1f'|int(base=16), '0b11'|int(base=2), '12'|int(base=8), ' 42 '|int, '1_000'|int, '4.9'|int, '-3.9'|int, 'inf'|int, '1e3'|int
1e999|int
none|int, l|int, true|int, 3.99|int, -3.99|int, '٣'|int, ''|int, 'z'|int(5), 'ff'|int(0, 16), '0x1f'|int(base=0)
'3.5'|float, 'x'|float, '1e5'|float, 'nan'|float, ' inf '|float, none|float, true|float, '1_0.5'|float, 'x'|float(none)
'a b'|title, 'a-b (c) [d] {e} <f> g_h i.j'|title, "it's"|title, 'ß'|title, 'ǆ'|title
'foo bar baz'|truncate(9), 'foo bar baz qux'|truncate(9, true), 'foo bar baz qux'|truncate(9, false, '…', 0)
'a\\nb\\n\\nc'|indent, 'a\\nb'|indent(2, true), ''|indent, 'a\\n'|indent(1, blank=true)
'x'|center(5) ~ '|', 'xx'|center(5) ~ '|', 'xxx'|center(2)
'a1 b_c d-e é'|wordcount
'%s'|format(n), '%s %s'|format(1, 2), '%(a)s'|format(a=1), '%d'|format('x')
'%s'|format
'a'|format(1)
l|pprint, d|pprint, nested|pprint, long|pprint, missing|pprint, [long, long]|pprint, {'b': long, 'a': l * 9}|pprint
(long ~ '\\n' ~ long)|pprint
[[long]]|pprint
([1] * 60)|pprint, (1,)|pprint, ('x' * 90,)|pprint
l|reverse|list, 'abc'|reverse, (1, 2)|reverse|list, di|reverse|list, range(3)|reverse|list, {1, 2}|reverse
lm|tojson, d|tojson(indent=2), (1, 2)|tojson, '</script>&'|tojson, {'b': 1, 'a': [none, true, 1.5]}|tojson, 1e22|tojson, u|tojson
missing|tojson
l|map('upper')|tojson
'http://x.y'|urlize, 'a@b.co'|urlize, 'www.x.org)'|urlize, '(www.x.org/a(b))'|urlize, 'mailto:a@b.co'|urlize, '<www.x.com>'|urlize, 'x.com:80/a?b#c.'|urlize
'ftp://x'|urlize(extra_schemes=['ftp:']), 'http://1.2.3.4'|urlize, 'http://[::1]:8/'|urlize, 'https://a.b.c.d/e'|urlize(5), 'foo.bar'|urlize
{'a': 1, 'b': none, 'c': '<'}|xmlattr, {'a b': 1}|xmlattr
{'a': missing}|xmlattr
{'class': 'x', 'id': n}|xmlattr(false)
l|letter_choices, l|letter_choices(', ', ') '), range(26)|letter_choices(''), [1, none]|letter_choices, 'ab'|letter_choices
range(27)|letter_choices
'A'|answer_key_to_index, ' b '|answer_key_to_index, 'é'|answer_key_to_index, '3'|answer_key_to_index, 2|answer_key_to_index, 'B'|answer_key_to_index(['A', 'B'])
'AB'|answer_key_to_index
'ß'|answer_key_to_index
'Z'|answer_key_to_index(['A'])
1|answer_key_to_index(['1', '2'])
'aXbX'|regex_replace('x', '-'), 'aXbX'|regex_replace('(?i)x', '-'), 'ab'|regex_replace('(a)(b)', '\\\\2\\\\g<1>'), 'aaa'|regex_replace('a', 'b', 2), 'aaa'|regex_replace('a', 'b', count=1)
1|regex_replace('a', 'b')
'a'|regex_replace('a', '\\\\9')
striptags|default('x')
html|striptags, '<p>a</p> <!-- x > -->b < c'|striptags, '&lt;b&gt; &notit; &#x41; &#0; &#128; &#xD800; &nope; &amp'|striptags
'a\\u2028b c'.splitlines()|length
l|attr('append') is callable
'x'|attr('upper')()
d|attr('text') is defined
q is lower, q is upper, 'abc' is lower, '1' is lower, 'ABC' is upper
'upper' is filter, 'nope' is filter, 'defined' is test, 3 is filter
l is filter
n is sameas n, none is sameas none, l is sameas l, [] is sameas []
3 is integer, 3.0 is integer, true is integer, 3.0 is float, true is number, true is boolean, 1 is true, true is true
'x' is escaped, ('x'|e) is escaped
range is callable, q is callable, q.upper is callable, missing is callable
di is mapping, l is mapping, 'a' is iterable, 1 is iterable, 1 is sequence, di is sequence, range(2) is sequence
missing is iterable
missing is none, missing is string, missing is number, missing is mapping, missing is sequence, missing is boolean, missing is sameas 1, missing is true
missing is eq 1
missing is in l
missing is odd
missing is lower
missing is escaped
missing is filter
missing is integer, missing is float
l|length > 2 and q
n if n > 2 else q
(l|first) ~ (l|last)
l.0 ~ l.1
l.0.upper()
nested.0.k ~ nested[1]['k']
ll[0][1] + ll.1.0
d.label.index('B')
d['label'].index('Z')
'abc'.index('c')
l|length - 1
l|join(', ') ~ '.'
q.split(' ')|map('length')|sum
'-'.join(l)
'-'.join(ln)
','.join(l|map('upper'))
','.join(di)
','.join(missing)
q.replace('up', 'down').replace("'", '"')
q.strip('?').rstrip('p')
s.strip() ~ '|'
'%.2f' % f ~ '!'
'%s' % n + 'x'
lipsum(n=1, html=false) is string
caller
varargs
true, True, false, False, none, None
TRUE
null
a.b.c
foo bar
1 2
'a' b
n n
l[
l[0
(1
{'a'}
{'a': }
[1,,2]
f(
n |
n | 
| n
n is
n is not
n.
n..x
n.1x
n[]
l[1:2, 3]
@
$x
a ? b : c
a && b
a || b
!a
a = 1
a := 1
lambda x: x
`x`
a ; b
'abc
"abc'
n if
n if t else
if n
for
in
is
not
and n
n and
*l
**d
dict(a=1, a=2)
dict(a=1, 2)
dict(*l, *l)
range(*[1, 4])|list
range(*l)
'x'.format(*l)
'{a}'.format(**{'a': 1})
'{a}'.format(**l)
q.upper(*[])
n|default(*['x'])
n|nope
n|nope.x
n is nope
t and n|nope
[n|nope]
'a' if t else n|nope
n|nope if no else 'ok'
'ok' if t or n is nope
(n is nope) if no else 'ok'
n|abs|
n|abs()()
n|string()
é
日本
ünder
x.é is defined
_x
self.foo
q['upper']()
q['nope'] is defined
l['append'] is callable
5['real']
1.5.real
d.get('text')[0]
d.get('zz', 'dflt')
d.get('zz')
'a' ~ 1 ~ none ~ 1.0 ~ [1]
1 ~ 2 + 3
1 + 2 ~ 3
2 * 3 ~ 4
'a' ~ 'b' * 2
(1, 2) | join
1, 2 | join
l | join('x') | upper
l|first()
-n|string
-(n|string)
- 'a'
n ** 2 | string
not 'a' == 'b'
not ('a' == 'b') == true
1 == 1 in [true]
'a' in 'abc' in ['abc']
'a' not in 'abc' or t
n is not none and q is defined
not n is none
not n is divisibleby 2
l is defined and l|length > 0
{'a': 1}['a']
{'a': 1}.a
[1, 2][-1]
(1, 2)[0]
'abc'[1]
'abc'.1
[[1]][0][0]
range(10)[2:5]|list
range(10)[-1]
-5 // 2 ** 2
2 ** 2 * 3
10 - 2 - 3
2 / 2 / 2
100 // 7 % 4
[1, 2, 3][1:][0]
l[n - 3]
l[n:]
l['a':]
l[1.5]
l[1.5] is defined
l[true]
q[none:3]
q[::0]
q[::-2]
q[-100:100]
big[0] is defined
l[big] is defined
l[:big]
n.bit_length()
f.is_integer()
(2.0).is_integer()
none.upper()
l.upper()
d.upper()
di.a + di['b']
di.C""".split("\n")

STATEMENTS = r"""{% if n == 3 %}a{% elif n %}b{% else %}c{% endif %}
{% if no %}a{% elif n %}b{% elif t %}z{% else %}c{% endif %}
{% if missing %}a{% endif %}
{% if missing is defined and missing %}a{% else %}b{% endif %}
{% if 1, 2 %}a{% endif %}
{% if n %}a
{% if %}a{% endif %}
{% endif %}
{% else %}
{% if n %}a{% endfor %}
{% for x in l %}{{ x }}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for x in l %}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.cycle('o', 'e') }};{% endfor %}
{% for x in dup %}{{ loop.changed(x|lower) }}{% endfor %}
{% for x in l %}{{ loop.cycle() }}{% endfor %}
{% for x in l %}{{ loop }}{% endfor %}
{% for x in l %}{{ loop.nope }}{% endfor %}
{% for x in l %}{{ loop() }}{% endfor %}
{% for k, v in di.items() %}{{ k }}={{ v }},{% endfor %}
{% for k, v in di|dictsort %}{{ k }}={{ v }},{% endfor %}
{% for k, v in di|items %}{{ k }}={{ v }},{% endfor %}
{% for k, v in missing|items %}{{ k }}{% else %}none{% endfor %}
{% for (a, b) in pairs %}{{ a }}{{ b }}{% endfor %}
{% for a, b in pairs %}{{ a }}{{ b }}{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in l %}{{ a }}{% endfor %}
{% for a, b in ['xy', 'zw'] %}{{ b }}{{ a }}{% endfor %}
{% for x in el %}a{% else %}empty{% endfor %}
{% for x in l %}a{% else %}empty{% endfor %}
{% for x in n %}a{% endfor %}
{% for x in missing %}a{% endfor %}
{% for x in none %}a{% endfor %}
{% for x in ('a' if no) %}a{% else %}e{% endfor %}
{% for c in 'héy' %}{{ c }}.{% endfor %}
{% for k in d %}{{ k }}{% endfor %}
{% for x in ln if x > 1 %}{{ loop.index }}:{{ x }} {% endfor %}
{% for x in ln if x > 100 %}{{ x }}{% else %}none{% endfor %}
{% for x in ln if x is odd %}{{ loop.length }}{{ loop.last }}{% endfor %}
{% for x in l if loop.first %}{{ x }}{% endfor %}
{% for x in l recursive %}{{ x }}{% endfor %}
{% for x in [[1, [2]], 3] recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}
{% for x in [1, 2] %}{% for y in 'ab' %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }};{% endfor %}
{% for x in [1, 2] %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in range(3) %}{% set y = x %}{% endfor %}{{ y is defined }}
{% set y = 9 %}{% for x in range(3) %}{{ y }}{% set y = x %}{{ y }}{% endfor %}{{ y }}
{% for x in range(3) %}{% if x == 2 %}{{ z }}{% endif %}{% set z = x %}{% endfor %}
{% for x in range(2) %}{% set q = x %}{{ q }}{% endfor %}{{ q }}
{% for x in range(2) %}{{ q }}{% set q = x %}{% endfor %}
{% for q in l %}{{ q }}{% endfor %}{{ q }}
{% for loop in l %}{% endfor %}
{% for x in l %}{% set loop = 1 %}{% endfor %}
{% for x in l %}{% break %}{% endfor %}
{% for x in l %}{% continue %}{% endfor %}
{% do l.append(1) %}
{% for x in l
{% for in l %}{% endfor %}
{% for x l %}{% endfor %}
{% for x.y in l %}{% endfor %}
{% for 'x' in l %}{% endfor %}
{% for x in l if %}{% endfor %}
{% for x in l %}{% else %}{% else %}{% endfor %}
{% for x in 1, 2, 3 %}{{ x }}{% endfor %}
{% for x, in [[1], [2]] %}{{ x }}{% endfor %}
{% for x in l: %}{{ x }}{% endfor %}
{% set x = 1 %}{{ x }}
{% set x = 1, 2 %}{{ x }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = l %}{{ a }}
{% set (a, b) = (1, 2) %}{{ a + b }}
{% set a = b = 1 %}
{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x is string }}
{% set x | upper %}a{{ n }}b{% endset %}{{ x }}
{% set x | upper | replace('A', 'z') %}aba{% endset %}{{ x }}
{% set x | length %}abc{% endset %}{{ x + 1 }}
{% set q = q ~ '!' %}{{ q }}
{% set q = 1 %}{% set q = q + 1 %}{{ q }}
{% set x.y = 1 %}
{% set n.y = 1 %}
{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{% set ns.b = ns.a + 1 %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace(c=0) %}{% for x in l %}{% set ns.c = ns.c + loop.index %}{% endfor %}{{ ns.c }}
{% set ns = namespace() %}{% set ns.x %}cap{% endset %}{{ ns.x }}
{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}
{% set ns.x = 1 %}
{% set d.x = 1 %}
{% set true = 1 %}
{% set 1 = 1 %}
{% set x = %}
{% set x %}abc
{% set = 1 %}
{% if t %}{% set x = 1 %}{% endif %}{{ x }}
{% if no %}{% set x = 1 %}{% endif %}{{ x }}
{% if no %}{% set q = 1 %}{% endif %}{{ q }}
{% if t %}{% set q = 1 %}{% else %}{% set q = 2 %}{% endif %}{{ q }}
{% if no %}{% set x = 1 %}{% elif no %}{% set x = 2 %}{% endif %}{{ x is defined }}
{{ y }}{% set y = 1 %}
{{ q }}{% set q = 1 %}{{ q }}
{% for i in [1] %}{{ q }}{% endfor %}{% set q = 1 %}
{% for i in [1] %}{% if no %}{% set q = 1 %}{% endif %}{{ q }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% if i == 1 %}{% set x = 5 %}{% endif %}{{ x }}{% endfor %}{{ x }}
{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=1, a=2) }}{{ m(a=5) }}
{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}
{% macro m() %}{{ varargs|length }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(4) }}
{% macro m(a=b, b=1) %}{{ a }}{% endmacro %}{{ m() }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a, a) %}{% endmacro %}
{% macro m(1) %}{% endmacro %}
{% macro m %}{% endmacro %}
{% macro m() %}x{% endmacro %}{{ m }}
{% macro m(x, y=1) %}{{ caller }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}
{% macro m() %}{{ q }}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q }}
{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}
{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% set q = 1 %}
{% macro m() %}{{ q }}{% endmacro %}{% set q = 7 %}{{ m() }}
{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}
{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}
{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(3) }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}x{{ n }}{% endcall %}
{% macro m() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b=3) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}[{{ caller(1) }}]{% endmacro %}{% call m() %}x{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}
{% macro m(caller) %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m(caller=none) %}{{ caller is none }}{% endmacro %}{{ m() }}{% call m() %}a{% endcall %}
{% call n %}x{% endcall %}
{% call range(3) %}x{% endcall %}
{% call m() %}x
{% filter upper %}a{{ q }}b{% endfilter %}
{% filter upper|replace('A', 'z') %}aba{% endfilter %}
{% filter indent(2) %}a
b{% endfilter %}
{% filter length %}abc{% endfilter %}
{% filter nope %}abc{% endfilter %}
{% filter upper %}{% set x = 1 %}{{ x }}{% endfilter %}{{ x is defined }}
{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a is defined }}
{% with a=1, b=a %}{{ b }}{% endwith %}
{% with q=1 %}{{ q }}{% endwith %}{{ q }}
{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}
{% with a, b = 1, 2 %}{% endwith %}
{% with (a, b) = (1, 2) %}{{ a }}{{ b }}{% endwith %}
{% block x %}a{{ q }}{% endblock %}
{% block x %}a{% endblock x %}{{ self.x() }}
{% block x %}a{% endblock %}{% block x %}b{% endblock %}
{% set y = 1 %}{% block x %}{{ y }}{% endblock %}
{% for i in [1, 2] %}{% block x %}{{ i is defined }}{% endblock %}{% endfor %}
{% for i in [1, 2] %}{% block x scoped %}{{ i }}{% endblock %}{% endfor %}
{% block x required %}{% endblock %}
{% block x %}{{ super() }}{% endblock %}
{% block x %}a
{% block 1x %}{% endblock %}
{% block x %}{% set y = 5 %}{{ y }}{% endblock %}{{ y is defined }}
{% extends 'x' %}
{% include 'x' %}
{% include 'x' ignore missing %}
{% import 'x' as y %}
{% from 'x' import y %}
{% from 'x' import _y %}
{% if no %}{% include 'x' %}{% endif %}ok
{% autoescape true %}{{ '<' }}{{ '<'|safe }}{{ url[:0] ~ '<' ~ ('>'|safe) }}{{ ['<']|join('>') }}{{ ['<', '<'|safe]|join('>') }}{% endautoescape %}{{ '<' }}
{% autoescape true %}{{ 'a<'|replace('<', '>') }}{{ ('a<'|safe)|replace('<', '>') }}{% set x %}<{% endset %}{{ x }}{% endautoescape %}
{% autoescape false %}{{ '<' }}{% endautoescape %}
{% print 1, 2 %}
{% print 'a' %}
{% nope %}
{% raw %}{{ x }}{% if %}{% endraw %}
{% raw -%}  a  {%- endraw %}|
a {%- raw %} b {% endraw -%} c
{% raw %}a
{% endraw %}
{# comment #}a{# b
c #}
a {#- x -#} b
{# x
{{ '{{' }}{{ '}}' }}{{ '{%' }}
{{ {'a': {'b': 1}} }}
{{ {} }}
{{{}}}
{{ '}}' }}
a{{ n }}b{{- n }}c {{ n -}} d{{+ n }}
  {%- if t %}  a  {%- endif -%}  b
  {%+ if t %}a{% endif +%}  b
{{-7}}|{{ -7 }}|{{- -7 }}
a
{%- set x = 1 %}
b
a
{{ n }}

{% if t %}
x
{% endif %}

{{ n
}}
{{ n }
{{ n
{% n %}
{%
{{
}} %} #}
{{}}
{% %}
{}
{ { n } }
{% if t -%}
   a
{%- else -%}
   b
{%- endif %}
{{ [1,
2] }}
{%- for x in l -%} {{ x }} {%- endfor -%}
{% set l2 = [] %}{% for x in l %}{{ l2.append(x) or '' }}{% endfor %}{{ l2 }}
{% set _ = l.append('z') %}{{ l }}
{{ l.append('z') }}{{ l }}{{ l.pop() }}{{ l }}
{{ di.update({'z': 1}) }}{{ di }}{{ di.pop('z') }}{{ di }}
{% set x = l %}{% set _ = x.reverse() %}{{ l }}
{{ nested[0].update(k='zz') }}{{ nested[0].k }}
{% set x = [1] %}{% set y = x %}{% set _ = y.append(2) %}{{ x }}{{ x is sameas y }}
{% set x = {'a': []} %}{% set _ = x.a.append(1) %}{{ x }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}
{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{% set g = l|map('upper') %}{{ g|list }}{{ g|list }}
{% set g = ln|select('gt', 1) %}{% for x in g %}{{ x }}{{ loop.last }}{% endfor %}{{ g|list }}
{% for x in l|map('upper') %}{{ loop.revindex }}{{ loop.length }}{% endfor %}
{% for g in nested|groupby('g') %}{{ g.grouper }}:{{ g.list|length }}{{ g[0] }};{% endfor %}
{% for a, b in nested|groupby('g') %}{{ a }}:{{ b|map(attribute='k')|join }};{% endfor %}
{% for row in l|batch(2, '-') %}{{ row|join }};{% endfor %}
{% for row in l|slice(2) %}{{ row|join }};{% endfor %}
{% for x in d.text %}{{ d.label[loop.index0] }}. {{ x }}{{ '\n' if not loop.last }}{% endfor %}
{% for x in range(3) %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% set letters = ['A', 'B'] %}{% for x in d.text %}{{ letters[loop.index - 1] }}{% endfor %}
{% if q.startswith('What') and 'up' in q %}y{% endif %}
{% if n is divisibleby 3 and not no %}y{% endif %}
{% if l %}y{% endif %}{% if el %}y{% else %}n{% endif %}
{% if n|nope %}{% endif %}
{% if no %}{{ n|nope }}{% endif %}ok
{% if no %}{{ n is nope }}{% endif %}ok
{% if no %}{% for x in l %}{{ n|nope }}{% endfor %}{% endif %}ok
{% if t %}{{ n|nope }}{% endif %}ok
{% if no %}{% filter nope %}{% endfilter %}{% endif %}ok
{% for x in l %}{{ x|nope }}{% endfor %}
{% for x in el %}{{ x|nope }}{% endfor %}
{% set x = n|nope %}
{% macro m() %}{{ n|nope }}{% endmacro %}
{% set x = 'a' if no %}{{ x }}|{{ x is defined }}
{% set x = missing %}{{ x is defined }}
{% set x = missing %}{{ x }}
{% set x = [missing] %}{{ x }}
{{ self }}
{{ loop }}
{% for x in l %}{{ x }}{% endfor %}{{ loop }}
{{ range }}
{% set range = 5 %}{{ range }}
{{ dict }}
{% set items = d.items() %}{{ items|list }}
{{ items.items }}{{ items['items'] }}
{{ n }}\n
\{{ n }}
\u00e9 é {{ 'é' }}
{{ "a
b" }}
{{ 'a'
'b' }}
{{ n }}{#{{ n }}#}{{ n }}
{%if t%}a{%endif%}
{{n}}{{n|string}}{{l|length}}
{{ n }}	{{ n }}
{% set x = (1,
2) %}{{ x }}""".split("\n")

TRICKY = [
    "{{ n }}\r\n{{ q }}\rx\r", "{{ 'a\r\nb' }}", "{{ n }}\n", "\n", "", " ", "\n\n{% if t %}\n{% endif %}\n", "{{ s }}", "{%- if t -%}\n a \n{%- endif -%}\n",
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "{{ with space }}", "\u2028{{ n }}\u00a0{%- if t %}x{% endif %}", "x \u00a0{{- n -}}\u2003 y", "{{ q\u00a0}}", "{% filter indent(2) %}a\nb{% endfilter %}",
    "{% for x in l %}\n{{ x }}\n{% endfor %}\n", "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\n", "{#\n multi\n#}\nx", "{% raw %}\n{{ a }}\n{% endraw %}\n", "{%- raw -%}\n a \n{%- endraw -%}\n b",
    "{% macro m(a,\n  b=1) -%}\n {{ a }}{{ b }}\n{%- endmacro %}{{ m(1) }}", "{{ 1 }}}", "{{ '{{ 1 }}' }}", "{{{'a': 1}.a}}", "{{ {'a': 1}['a']}}", "{% set x = {'a': {'b': {}}} %}{{ x }}",
]

CHAT_DOC = {
    "messages": [
        {"role": "system", "content": "Be <kind> & 'good'"}, {"role": "user", "content": "Hi é"}, {"role": "assistant", "content": "Yo"},
        {"role": "user", "content": [{"type": "text", "text": "part"}]},
    ],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "tools": [{"b": 1, "a": ["é", None, 1.5]}],
}

CHAT = [
    "{{ missing }}|{{ missing.x is defined }}", "{{ missing }}|{{ messages.x }}|{{ messages[9] }}", "{{ missing.x }}", "{{ missing + 1 }}", "{{ missing ~ 'a' }}",
    "{% if missing %}a{% else %}b{% endif %}{% for x in missing %}x{% endfor %}", "{{ missing|length }}{{ missing|list }}{{ missing == missing }}{{ missing == 1 }}{{ missing in [1] }}",
    "{{ tools|tojson }}", "{{ tools|tojson(indent=2) }}", "{{ tools|tojson(ensure_ascii=true) }}", "{{ tools|tojson(separators=(',', ':'), sort_keys=true) }}", "{{ messages[0].content|tojson }}",
    "{{ tools|tojson(true, 1, none, true) }}", "{{ missing|tojson }}", "{{ raise_exception('no') }}", "{% if false %}{{ raise_exception('no') }}{% endif %}ok", "{{ strftime_now('%Y') is string }}",
    "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ m['role'] }}{% endfor %}",
    "{% break %}", "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.role }}\n    {% endif %}\n{% endfor %}\nend\n", "  {% set x = 1 %}  {{ x }}\n  {# c #}\n  y\n", "{% raw %}\n  a\n  {% endraw %}\nb",
    "{% generation %}a{{ bos_token }}{% set x = 1 %}{% endgeneration %}{{ x is defined }}", "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] | trim if m['content'] is string else m['content'][0]['text'] }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{{ messages.append(1) }}", "{{ messages[0].update({'a': 1}) }}", "{% set l = [1] %}{{ l.append(2) }}", "{{ messages[0].pop('role') }}", "{{ messages.__class__ }}", "{{ ''.__class__ }}|", "{{ messages[0].items()|list }}",
    "{%- for m in messages -%}\n    {{- '<|' + m.role + '|>\n' -}}\n{%- endfor -%}", "{%+ if true +%}\n x\n{%- endif %}", "  {%- if true %}\n  a\n  {%- endif %}\n", "{% set ns = namespace(a=false) %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.a = true %}{% endif %}{% endfor %}{{ ns.a }}",
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}", "{% macro show(m) %}{{ m.role }}:{{ m.content }}{% endmacro %}{{ show(messages[1]) }}", "{{ range(100001) }}", "{{ messages[::-1][0].role }}", "{% do messages %}",
    "{{ 'a' if messages[0]['role'] == 'system' }}", "{{ messages[1:]|length }}", "{{ 'x'|regex_replace('x', 'y') }}", "{{ 'x'.join(['a', 'b']) }}", "{{ none }}|{{ true }}|{{ 1.0 }}", "{{ messages[0]['content'].split('&')[0].strip() }}",
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
    # `list` and the like after a filter that makes a generator belong to it.
    followers = {"list", "join('/')", "join", "length", "upper", "e"}
    result = []
    for part in parts:
        if part in followers and result and result[-1].split("|")[-1].split("(")[0] in GENERATORS:
            result[-1] += "|" + part
        else:
            result.append(part)
    return list(dict.fromkeys(result))


# Addresses and complex numbers: the former are never the same twice, the latter are not supported.
VARYING = re.compile(r"generat|object|<function|<class|bound method|\dj\)|\.o\.b\.j", re.I)

GENERATORS = {"batch", "map", "select", "reject", "selectattr", "rejectattr", "slice", "unique", "reverse", "items"}


def cases():
    for value, name in itertools.product(VALUES, split_filters()):
        # The number of words in what a generator prints depends on what Python prints.
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
            # Nothing of this size is a prompt, and a number of this size is only slow.
            out = environments[chat].from_string(template).render(doc)
        except Exception:
            out = None
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
