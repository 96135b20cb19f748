--------------------------------- MODULE MC ---------------------------------
(* Names for what a configuration file of TLC cannot write.                   *)
EXTENDS Strandline
NoMove == <<>>
OneMove == <<{1, 2, 4}>>
Shrink == <<{1}>>
=============================================================================
