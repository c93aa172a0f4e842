module github.com/plait-run/plait/plaitd

go 1.26

replace github.com/plait-run/plait => ../
