# Some events of forks run with the secrets of this repository, on the condition that only its own code is run. Refuse
# anything but the commit that the event names: Plait runs what flows and agents find in the working tree.
set -eu
case $GITHUB_EVENT_NAME in
  pull_request_target | workflow_run | issue_comment) ;;
  *) exit 0 ;;
esac
cd "$GITHUB_WORKSPACE"
if [ "$(git rev-parse HEAD)" != "$GITHUB_SHA" ] ||
  ! git diff --quiet --no-ext-diff --no-textconv HEAD --; then
  echo "::error::On $GITHUB_EVENT_NAME, secrets are at hand, so Plait runs on commit $GITHUB_SHA only, not on what" \
    "was checked out instead. Use the event pull_request for code of forks."
  exit 2
fi
