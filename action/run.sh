# Runs the flow FLOW with PROMPT and ARGS, and says in GITHUB_OUTPUT what came of it. Its exit code is an output: the
# steps that report it come first.
set -euf
dir=$(mktemp -d "$RUNNER_TEMP/plait-task.XXXXXX") # of its own: a job may have several such steps
export PLAIT_HOME="${PLAIT_HOME:-$RUNNER_TEMP/plait-home}"

# What agents print is not for the runner to obey.
resume=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$resume"
code=0
# shellcheck disable=SC2086 # ARGS are several
plait run "$FLOW" -p "$PROMPT" $ARGS </dev/null >"$dir/result.txt" || code=$?
cat "$dir/result.txt"
task=
if task=$(plait show last --jq .id 2>/dev/null) && plait task export last -o "$dir/task.zip" >/dev/null; then
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
