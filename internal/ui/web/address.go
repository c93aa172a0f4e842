package web

import "net/url"

// An address is that of a task's page: what is chosen, the tab, and the state of the lanes that are shown. Links on the
// page are made from it, so that each keeps what it does not change.
type address struct{ task, at, tab, state string }

func (a address) String() string {
	q := url.Values{}
	for name, value := range map[string]string{"at": a.at, "tab": a.tab, "state": a.state} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return (&url.URL{Path: "/tasks/" + a.task, RawQuery: q.Encode()}).String()
}

// Item returns where an item is chosen.
func (a address) Item(key string) string {
	if a.at == "" {
		a.tab = "" // items do not have the tabs of the task
	}
	a.at = key
	return a.String() + "#chosen"
}

// Tab returns where a tab of the task is shown.
func (a address) Tab(name string) string {
	a.at, a.tab = "", name
	return a.String()
}

// lanes returns where the lanes in a state are shown, or all.
func (a address) lanes(state string) string {
	a.state = state
	return a.String()
}
