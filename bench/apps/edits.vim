" A text in an editor: substitutions, sorting, undo and registers; the text is written at the end.
" usage: vim -u NONE -i NONE -N -es -S bench/apps/edits.vim FILE
set undolevels=100
%s/\<\(\w\)\(\w*\)\>/\u\1\2/g
g/[13579]\.$/s/\w\+ \(\w\+\)/\1 \0/
%sort i
%s/\d\+\.$/\=submatch(0) % 1000/
undo
g/^B/normal! yyp
redo
%!cat
%join 5
%s/ /\r/g
%sort u
wq
