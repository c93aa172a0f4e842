# Some events run with the secrets of this repository though strangers set them off, on the condition that only its own
# code is run. Refuse anything but the commit that the event names: Plait runs what flows and agents find in the working
# tree, be it tracked, untracked or ignored. pull_request has no secrets for forks, and what is pushed or scheduled is
# from people who may write.
set -eu
case $GITHUB_EVENT_NAME in
  pull_request | push | schedule) exit 0 ;;
esac
cd "$GITHUB_WORKSPACE"
changed=$(git status --porcelain --untracked-files=all --ignored -- . ':(exclude).plait/.gitignore' \
  ':(exclude).plait/tasks' ':(exclude).plait/worktrees') # what an earlier step of Plait's left
if [ -n "$changed" ] || [ "$(git rev-parse HEAD)" != "$GITHUB_SHA" ]; then
  echo "::error::On $GITHUB_EVENT_NAME, secrets are at hand, so Plait runs on the files of commit $GITHUB_SHA only, not" \
    "on what was checked out or made instead. Use the event pull_request for code of forks."
  exit 2
fi
