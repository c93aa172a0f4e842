# Runs the flow FLOW with PROMPT and ARGS, and says in GITHUB_OUTPUT what came of it. Its exit code is an output: the
# steps that report it come first.
set -euf
dir=$(mktemp -d "$RUNNER_TEMP/plait-task.XXXXXX") # of its own: a job may have several such steps
export PLAIT_HOME="${PLAIT_HOME:-$RUNNER_TEMP/plait-home}"

# What agents print is not for the runner to obey.
resume=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$resume"
code=0
# The task's id, a ULID: ten digits of the time in ms, and sixteen of chance.
digits=0123456789ABCDEFGHJKMNPQRSTVWXYZ
now=$(date +%s)000
id=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n' | tr a-f A-F)
while [ ${#id} -lt 26 ]; do
  id=$(printf %s $digits | cut -c $((now % 32 + 1)))$id
  now=$((now / 32))
done
# The prompt may be what a stranger wrote: as an argument, @FILE would be that file.
# shellcheck disable=SC2086 # ARGS are several
printf %s "$PROMPT" | plait run "$FLOW" --id "$id" -p - $ARGS >"$dir/result.txt" || code=$?
cat "$dir/result.txt"
if task=$(plait show "$id" --jq .id 2>/dev/null) && plait task export "$id" -o "$dir/task.zip" >/dev/null; then
  bundle=$dir/task.zip
else
  bundle= # the flow did not begin
fi
echo
echo "::$resume::"
{
  echo "task=$task"
  echo "exit-code=$code"
  echo "result=$dir/result.txt"
  echo "bundle=$bundle"
} >>"$GITHUB_OUTPUT"
