#!/bin/sh
got=$(sh tally.sh 1 2 3)
if [ "$got" != 6 ]; then
  echo "FAIL: tally 1 2 3 is $got, want 6"
  exit 1
fi
echo "PASS"
