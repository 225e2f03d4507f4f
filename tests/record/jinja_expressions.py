"""Hand-written expressions for `jinja_vectors.py`, one per line."""

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
