"""Programs over sequences become layers of attention, exactly. Run: python examples/sequences.py"""

import softwright as sw

brackets = sw.Sequence(length=(1, 32), s=sw.Symbols("(){}"))
balanced = sw.compile(
    """
    b = sum((s[j] == '(') - (s[j] == ')') for j <= i)
    c = sum((s[j] == '{') - (s[j] == '}') for j <= i)
    all(b >= 0 and c >= 0) and last(b) == 0 and last(c) == 0
    """,
    brackets,
    dtype="float32",
)
print(balanced)
print(balanced(s=["({)}", "(}", "(())"])[:, 0])

numbers = sw.Sequence(length=(1, 32), x=(-1, 1), s=sw.Symbols("ab"))
running = sw.compile("x - mean(x[j] for s[j] == s[i]), max(x[j] for j <= i)", numbers, tol=1e-6)
print(running(x=[0.5, -1.0, 0.75], s="aba"))
print(running.plan.explain())
