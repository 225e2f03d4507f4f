"""Hand-written templates for `jinja_vectors.py`: statements, whitespace and chat templates."""

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
