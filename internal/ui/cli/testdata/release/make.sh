#!/bin/bash
# Makes the record of this directory with the plait given as $1: record.tar.gz has the record, its workspace with its
# Git repository, and an exported task; shown says what is in each thread, and outcomes what its tasks come to. The
# tasks that are unfinished are finished afterwards, by the same plait. fake.py plays the agents that have a program.
# It is made at /mnt/plait, where nothing else sees it: paths are in requests to models, and the test replays it there.
set -eu
P=$(realpath "$1") here=$(realpath "$(dirname "$0")") work=/mnt/plait
if [ -z "${2:-}" ]; then
  dir=$(mktemp -d)
  exec bwrap --dev-bind / / --tmpfs /mnt --bind "$dir" $work --die-with-parent "$here/make.sh" "$P" inside
fi
export PLAIT_HOME="$work/home" HOME="$work/user" GIT_CONFIG_NOSYSTEM=1 TZ=UTC
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
unset XDG_DATA_HOME XDG_CACHE_HOME XDG_CONFIG_HOME XDG_STATE_HOME
mkdir -p "$HOME"
cp -R "$here/ws" "$work/ws"
mkdir "$work/bin" && for p in claude codex acp-agent; do cp "$here/fake.py" "$work/bin/$p"; chmod +x "$work/bin/$p"; done
export PATH="$work/bin:$PATH"
cd "$work/ws"
T=01K0000000000000000000
git init -q -b main && git add -A && git commit -qm one
plait() { "$P" "$@" >>"$work/log" 2>&1 || echo "plait $*: $?" >>"$work/log"; }
run() { local id=$1; shift; plait run "$@" -q --trust --id "$T$id"; }
gates() { "$P" gate list --json | jq -r --arg t "$T$1" '.data.gates[] | select(.task == $t) | .id'; }
beside() { # starts a task, answers the questions that come up with $2, and waits for its end
  local id=$1 verb=$2; shift 2
  "$P" run "$@" -q --trust --wait --id "$T$id" >>"$work/log" 2>&1 & local pid=$!
  until [ -n "$(gates $id)" ]; do sleep 0.1; done
  case $verb in
  edit) EDITOR='sed -i s/approved.txt/other.txt/' plait approve $(gates $id) --edit ;;
  *) plait $verb $(gates $id) ;;
  esac
  wait $pid || true
}
killed() { # starts a task and kills it when step $2 has begun
  "$P" run "$3" -p go -q --trust --id "$T$1" >>"$work/log" 2>&1 & local pid=$!
  until grep -qs begun "$work/ws/.plait/tasks/$T$1/agents/$2"*/runtime/events.jsonl; do sleep 0.1; done
  kill -9 $pid; wait $pid 2>/dev/null || true
}

run NEST nest.yaml -p 'Nest'
run FA17 fails.yaml -p 'Fail'
run ASKS asks.yaml -p 'Ask'
plait approve $(gates ASKS); plait resume ${T}ASKS -q
plait deny $(gates ASKS) -m 'not that'; plait resume ${T}ASKS -q
plait answer $(gates ASKS) -m blue; plait resume ${T}ASKS -q
echo 'from the notes' >>.plait/tasks/${T}ASKS/shared/human-notes.md
plait resume ${T}ASKS -q
plait resume ${T}ASKS -p 'and one more thing' -q
beside APPR approve -p x --offline=approve --agent model --record
beside DENY deny -p x --offline=approve --agent model --record
beside ED1T edit -p x --offline=approve --agent model --record
run TA1K talks.yaml -p 'Talk' --offline=./model.yaml --record
run CHAT chat -p hello --offline=chat --agent model --record
plait resume ${T}CHAT -p second -q
plait thread compact ${T}CHAT --offline=chat --agent model
plait resume ${T}CHAT -p 'and then' -q
run P1AN orchestrate -p 'Write two files' --offline=./plan.yaml --agent model --record
run K1ND kinds.yaml -p 'Work' --offline=./model.yaml
run 0DDS odd.yaml -p 'Odd'
run CANC stops.yaml -p 'Go' -d
until grep -qs begun .plait/tasks/${T}CANC/agents/two/runtime/events.jsonl; do sleep 0.1; done
plait cancel ${T}CANC
run WA1T waits.yaml -p 'Wait'
killed ST0P two stops.yaml
killed SP1T two splits.yaml

"$P" verify >>"$work/log"
rm -f "$here/exported.zip"
"$P" task export ${T}WA1T -o "$here/exported.zip" >>"$work/log" 2>&1
"$P" thread list --all --parts -n 0 --json | jq -r '.data.threads[].id' | sort | while read -r id; do
  "$P" thread show "$id" --json | jq -r '.data | "\(.id) \(.kind) \(.status) \(.head)"'
  "$P" thread show "$id" --json | jq -r '.data.steps[] | "\(.n) \(.role) \(.path) \(.attempts) \(.hash) \(.detail.prompt != null)"' |
    while read -r n rest; do
      if [ "${rest##* }" = true ]; then
        echo "  $n ${rest% *} $("$P" thread show "$id" --prompt "$n" --json | jq -j .data.text | sha256sum | cut -c1-16)"
      else
        echo "  $n ${rest% *}"
      fi
    done
done >"$here/shown"
sqlite3 "$PLAIT_HOME/plait.db" 'PRAGMA wal_checkpoint(TRUNCATE)' 'VACUUM' >/dev/null
git repack -adq && git pack-refs --all && rm -rf .git/hooks .git/logs .git/info .git/description
keep=$(cd .. && find ws/.plait/tasks/${T}ST0P ws/.plait/tasks/${T}SP1T -name runtime)
tar -C .. --sort=name --owner=0 --group=0 --mtime=@0 --exclude=ws/.plait -cf - home/plait.db ws >"$work/record.tar"
tar -C .. --sort=name --owner=0 --group=0 --mtime=@0 -rf "$work/record.tar" $keep
gzip -9 -n <"$work/record.tar" >"$here/record.tar.gz"

touch "$HOME/go"
plait answer $(gates WA1T) -m this; plait resume ${T}WA1T -q; plait resume ${T}ST0P -q
for id in $("$P" thread list --all -n 0 --json | jq -r '.data.threads[] | select(.status == "completed" or .status == "failed" or .status == "cancelled") | .id' | sort); do
  echo "$id $("$P" thread show "$id" --digest)"
done >"$here/outcomes"
cat "$work/log"
ls -l "$here"
