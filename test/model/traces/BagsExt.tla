------------------------------- MODULE BagsExt -------------------------------
(* What etcdraft.tla takes of the module of this name in TLA+'s community modules. *)
EXTENDS Bags, Integers, TLC

BagAdd(B, x) == B (+) SetToBag({x})

(* Folds op(folded, element) over the elements of B, each as often as it is in B. *)
FoldBag(op(_, _), base, B) ==
  LET times[x \in DOMAIN B] == B[x]
      RECURSIVE again(_, _, _)
      again(x, n, acc) == IF n = 0 THEN acc ELSE again(x, n - 1, op(acc, x))
      RECURSIVE fold(_, _)
      fold(S, acc) == IF S = {} THEN acc ELSE LET x == CHOOSE y \in S : TRUE IN fold(S \ {x}, again(x, times[x], acc))
  IN fold(DOMAIN B, base)
==============================================================================
