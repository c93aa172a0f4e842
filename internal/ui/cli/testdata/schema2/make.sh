#!/bin/sh
# Makes the store of this directory with the plait given as $1, as the last version wrote it
# whose steps do not say in which path they were done: plait.db.gz has loops, forks inside of
# forks, plans, forks by hand and tasks that are not finished; steps lists what is in each of
# them; digests is what each of them came to. Those that are finished afterwards are finished by the
# plait of today, whose joins say why paths failed: their digests (ASKS, P1AN, P1AN2, S10W) are from it.
set -eu
P=$(realpath "$1") here=$(realpath "$(dirname "$0")") work=$(mktemp -d)
export PLAIT_HOME="$work/home" HOME="$work"
cp -R "$here/ws" "$work/ws"
cd "$work/ws"
plait() { "$P" "$@" >>"$work/log" 2>&1 || echo "plait $*: $?" >>"$work/log"; }
run() { plait run "$2" -p go -q --trust --set planner.agent=planner --id "$1"; }
ids() { grep -oE '01[0-9A-Z]{24}' | grep -vF "$1"; }
answer() { plait gate answer "$("$P" gate list | awk -v t="$1" '$0 ~ t {print $1; exit}')" -m this; plait resume "$1" -q; }
finish() { # the tasks that are left unfinished
  answer 01K0000000000000000000ASKS
  answer 01K0000000000000000000P1AN
  touch go
  for t in 01K0000000000000000000HAND 01K000000000000000000P1AN2 01K0000000000000000000S10W; do plait resume $t -q; done
  answer 01K000000000000000000P1AN2
}

plait run nest.yaml -p go -q --id 01K0000000000000000000NEST
plait run asks.yaml -p go -q --id 01K0000000000000000000ASKS
run 01K0000000000000000000P1AN orchestrate
run 01K0000000000000000000D0NE orchestrate
answer 01K0000000000000000000D0NE
inner=$("$P" thread show 01K0000000000000000000NEST --tree | grep -A3 'path p ' | ids 01K0000000000000000000NEST | head -1)
action=$("$P" thread show 01K0000000000000000000D0NE --tree | grep 'path one ' | ids 01K0000000000000000000D0NE | head -1)
two=$("$P" thread show 01K0000000000000000000D0NE --tree | grep 'path two' | ids 01K0000000000000000000D0NE | head -1)
fork() { plait thread fork "$2" --at "$3" --id "$1" $4; }
fork 01K0000000000000000000HAND "$inner" 2 ""                               # inside an inner path, pending
fork 01K0000000000000000000RE01 "$inner" 2 --rejoin                         # joined again
fork 01K000000000000000000PATH1 01K0000000000000000000NEST 3 ""             # inside a path, from the thread that joined it
fork 01K000000000000000000P1AN2 01K0000000000000000000D0NE 1 ""             # at a plan, pending
fork 01K000000000000000000ACT01 "$action" 0 ""                              # of a spawned action
fork 01K000000000000000000ACT02 "$two" 1 ""                                 # of a forked one, before its step
for t in 01K0000000000000000000RE01 01K000000000000000000PATH1 01K000000000000000000ACT01 01K000000000000000000ACT02; do plait resume $t -q; done
"$P" run slow.yaml -p go -q --id 01K0000000000000000000S10W >>"$work/log" 2>&1 &
until "$P" thread show 01K0000000000000000000S10W --tree 2>/dev/null | grep -q 'left  done'; do sleep 0.2; done
kill -9 $!
wait $! 2>/dev/null || true
"$P" verify
gzip -9 -n -c "$PLAIT_HOME/plait.db" >"$here/plait.db.gz"
tasks() { "$P" thread list --all | grep -oE '^01[0-9A-Z]{24}' | sort; }
for t in $(tasks); do
  "$P" thread show "$t" --json | jq -r '.data | "\(.id) \(.status)", (.steps[] | "  \(.n) \(.role) \(.path)")'
done >"$here/steps"
finish
for t in $(tasks); do echo "$t $("$P" thread show "$t" --digest)"; done >"$here/digests"
cat "$work/log"
