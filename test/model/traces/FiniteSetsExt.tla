---------------------------- MODULE FiniteSetsExt ----------------------------
(* What etcdraft.tla takes of the module of this name in TLA+'s community modules. *)
EXTENDS Integers

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
==============================================================================
