# Plans once with a spawned and a forked action, and then finishes.
n=$(cat "plans-$PLAIT_TASK" 2>/dev/null | wc -l)
echo plan >> "plans-$PLAIT_TASK"
if [ "$n" = 0 ]; then
  echo '{"$status": "planned", "sessionGoal": "All is done.", "actions": [
    {"id": "one", "title": "One", "prompt": "do one", "agent": "does"},
    {"id": "two", "title": "Two", "prompt": "do two", "agent": "does", "mode": "fork", "dependsOn": ["one"]},
    {"id": "three", "title": "Three", "prompt": "do three", "agent": "asks"}],
    "join": {"joinStrategy": "ALL_COMPLETED", "mainPathId": "two"}}'
else
  echo '{"$status": "finished", "finish": {"summary": "All is done.", "report": "It was done."}}'
fi
