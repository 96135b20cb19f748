---------------------------- MODULE SequencesExt ----------------------------
(* What etcdraft.tla takes of the module of this name in TLA+'s community modules. *)
EXTENDS Naturals, Sequences, FiniteSets

IsPrefix(s, t) == Len(s) <= Len(t) /\ \A i \in 1..Len(s) : s[i] = t[i]

ToSet(s) == {s[i] : i \in DOMAIN s}

(* The last index of s from m to n whose element passes Test, or 0. *)
SelectLastInSubSeq(s, m, n, Test(_)) ==
  LET I == {i \in m..n : Test(s[i])} IN IF I = {} THEN 0 ELSE CHOOSE i \in I : \A k \in I : k <= i

RECURSIVE FoldSeq(_, _, _)
FoldSeq(op(_, _), base, s) == IF s = <<>> THEN base ELSE op(Head(s), FoldSeq(op, base, Tail(s)))
=============================================================================
