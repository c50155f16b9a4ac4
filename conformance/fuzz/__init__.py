"""Generated programs: random cases of the suite's own language, judged like any other.

`programs` makes them with Hypothesis, from what the language declares of its operations and words;
`campaign` runs them on the variants of an adapter, groups what is unexpected, and has Hypothesis look
for the smallest program of each group.
"""
