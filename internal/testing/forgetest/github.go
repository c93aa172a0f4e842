package forgetest

import (
	"encoding/json"
	"net/http"
	"strconv"
)

type object = map[string]any

var nothing = object{"message": "Not Found"}

func login(name string) object { return object{"login": name} }

func (s *Server) user(d *Data, _ *http.Request) (int, any) {
	if d.App {
		return http.StatusForbidden, object{"message": "Resource not accessible by integration"}
	}
	return http.StatusOK, login(Me)
}

func (s *Server) repo(*Data, *http.Request) (int, any) {
	return http.StatusOK, object{"name": Name, "default_branch": "main", "owner": login(Owner)}
}

func number(r *http.Request) int {
	n, _ := strconv.Atoi(r.PathValue("n")) // 0 is none
	return n
}

func (s *Server) issue(d *Data, r *http.Request) (int, any) {
	i := d.Issues[number(r)]
	if i == nil {
		return http.StatusNotFound, nothing
	}
	labels := []object{}
	for _, l := range i.Labels {
		labels = append(labels, object{"name": l})
	}
	return http.StatusOK, object{"number": number(r), "title": i.Title, "body": i.Body, "user": login(i.By),
		"labels":   labels,
		"html_url": s.page("issues", number(r))}
}

func (d *Data) request(n int) *Request {
	for _, p := range d.Requests {
		if p.Number == n {
			return p
		}
	}
	return nil
}

// said returns what was said of an issue or a request.
func (d *Data) said(n int) *[]*Comment {
	if p := d.request(n); p != nil {
		return &p.Said
	}
	if i := d.Issues[n]; i != nil {
		return &i.Said
	}
	return nil
}

// comments returns those of one kind, as GitHub does.
func (s *Server) comments(d *Data, r *http.Request, is func(*Comment) bool) (int, any) {
	said := d.said(number(r))
	if said == nil {
		return http.StatusNotFound, nothing
	}
	list := []object{}
	for _, c := range *said {
		if !is(c) {
			continue
		}
		o := object{"id": c.ID, "user": login(c.By), "author_association": c.As, "body": c.Body,
			"html_url": s.URL + "/c/" + strconv.FormatInt(c.ID, 10)}
		if c.Review {
			o["state"] = "CHANGES_REQUESTED"
		}
		if c.Pending {
			o["state"] = "PENDING"
		}
		if c.InReplyTo != 0 {
			o["in_reply_to_id"] = c.InReplyTo
		}
		if c.File != "" {
			o["path"], o["line"], o["commit_id"] = c.File, c.Line, c.Commit
		}
		list = append(list, o)
	}
	return http.StatusOK, list
}

func (s *Server) issueComments(d *Data, r *http.Request) (int, any) {
	return s.comments(d, r, func(c *Comment) bool { return !c.Review && c.File == "" })
}

func (s *Server) lineComments(d *Data, r *http.Request) (int, any) {
	return s.comments(d, r, func(c *Comment) bool { return c.File != "" })
}

func (s *Server) reviews(d *Data, r *http.Request) (int, any) {
	return s.comments(d, r, func(c *Comment) bool { return c.Review })
}

// sent reads the body of a request.
func sent(r *http.Request) (in struct {
	Title, Body, Head, Base string
	Draft                   bool
	InReplyTo               int64 `json:"in_reply_to"`
}) {
	json.NewDecoder(r.Body).Decode(&in) // what cannot be read is empty, and refused
	return in
}

func (s *Server) say(d *Data, r *http.Request) (int, any) {
	said, in := d.said(number(r)), sent(r)
	if said == nil || in.Body == "" {
		return http.StatusNotFound, nothing
	}
	*said = append(*said, &Comment{ID: d.ID(), By: Me, As: "OWNER", Body: in.Body})
	return http.StatusCreated, object{"user": login(Me)}
}

func (s *Server) replyTo(d *Data, r *http.Request) (int, any) {
	said, in := d.said(number(r)), sent(r)
	if said == nil {
		return http.StatusNotFound, nothing
	}
	for _, c := range *said {
		if c.ID == in.InReplyTo && c.File != "" && c.InReplyTo == 0 { // replies to replies are not supported
			*said = append(*said, &Comment{ID: d.ID(), By: Me, As: "OWNER", Body: in.Body, File: c.File, Line: c.Line,
				Commit: c.Commit, InReplyTo: c.ID})
			return http.StatusCreated, object{"user": login(Me)}
		}
	}
	return http.StatusUnprocessableEntity, object{"message": "Validation Failed"}
}

func (s *Server) pull(p *Request) object {
	state, merged := "open", any(nil)
	if p.Shut || p.Fused {
		state = "closed"
	}
	if p.Fused {
		merged = "2026-11-28T12:00:00Z"
	}
	return object{"number": p.Number, "state": state, "merged_at": merged, "draft": p.Draft,
		"title": p.Title, "body": p.Body,
		"html_url": s.page("pull", p.Number),
		"head":     object{"ref": p.Branch, "sha": s.Head(p.Branch), "repo": object{"owner": login(Owner)}}}
}

func (s *Server) pulls(d *Data, r *http.Request) (int, any) {
	list := []object{}
	for i := len(d.Requests) - 1; i >= 0; i-- {
		if p := d.Requests[i]; r.URL.Query().Get("head") == Owner+":"+p.Branch {
			list = append(list, s.pull(p))
		}
	}
	return http.StatusOK, list
}

func (s *Server) open(d *Data, r *http.Request) (int, any) {
	in := sent(r)
	if s.Head(in.Base) == "" || s.Head(in.Head) == "" || in.Title == "" {
		return http.StatusUnprocessableEntity, object{"message": "Validation Failed"}
	}
	for _, p := range d.Requests {
		if p.Branch == in.Head && !p.Shut && !p.Fused {
			return http.StatusUnprocessableEntity, object{"message": "A pull request already exists"}
		}
	}
	p := &Request{Number: int(d.ID()), Branch: in.Head, Base: in.Base, Title: in.Title, Body: in.Body, Draft: in.Draft}
	d.Requests = append(d.Requests, p)
	return http.StatusCreated, s.pull(p)
}

func (s *Server) edit(d *Data, r *http.Request) (int, any) {
	p, in := d.request(number(r)), sent(r)
	if p == nil {
		return http.StatusNotFound, nothing
	}
	p.Title, p.Body = in.Title, in.Body
	return http.StatusOK, s.pull(p)
}

func (s *Server) checkRuns(d *Data, r *http.Request) (int, any) {
	list := []object{}
	for _, c := range d.Checks[r.PathValue("sha")] {
		o := object{"id": c.ID, "name": c.Name, "status": "completed", "conclusion": c.State,
			"app": object{"slug": "github-actions"}, "output": object{"annotations_count": 0}}
		if c.State == "queued" {
			o["status"], o["conclusion"] = "queued", nil
		}
		if c.File != "" {
			o["output"] = object{"annotations_count": 1}
		}
		list = append(list, o)
	}
	return http.StatusOK, object{"total_count": len(list), "check_runs": list}
}

func (s *Server) status(*Data, *http.Request) (int, any) {
	return http.StatusOK, object{"state": "pending", "statuses": []object{}}
}

func (s *Server) annotations(d *Data, r *http.Request) (int, any) {
	list := []object{}
	for _, checks := range d.Checks {
		for _, c := range checks {
			if strconv.FormatInt(c.ID, 10) == r.PathValue("id") && c.File != "" {
				list = append(list, object{"path": c.File, "start_line": c.Line, "message": "here"})
			}
		}
	}
	return http.StatusOK, list
}
