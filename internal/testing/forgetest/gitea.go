package forgetest

import (
	"net/http"
	"strconv"
	"strings"
)

// GiteaAPI returns the address of the same forge as Gitea's API.
func (s *Server) GiteaAPI() string { return s.URL + "/api/v1/" }

// giteaRoutes are those of Gitea's API, on the same data.
func (s *Server) giteaRoutes() map[string]func(d *Data, r *http.Request) (int, any) {
	const repo = "/api/v1/repos/" + Owner + "/" + Name
	return map[string]func(d *Data, r *http.Request) (int, any){
		"GET /api/v1/user": s.user,
		"GET " + repo:      s.repo,
		"GET " + repo + "/collaborators/{who}/permission": s.permission,
		"GET " + repo + "/issues/{n}":                     s.issue,
		"GET " + repo + "/issues/{n}/comments":            s.issueComments,
		"POST " + repo + "/issues/{n}/comments":           s.say,
		"GET " + repo + "/pulls":                          paged(s.teaPulls),
		"GET " + repo + "/pulls/{n}":                      s.teaPull,
		"POST " + repo + "/pulls":                         s.open,
		"PATCH " + repo + "/pulls/{n}":                    s.edit,
		"GET " + repo + "/pulls/{n}/reviews":              paged(s.teaReviews),
		"GET " + repo + "/pulls/{n}/reviews/{id}/comments": func(d *Data, r *http.Request) (int, any) {
			if r.PathValue("id") != strconv.Itoa(lineReview) {
				return http.StatusOK, []object{}
			}
			return s.teaLines(d, r)
		},
		"GET " + repo + "/commits/{sha}/statuses": paged(s.teaStatuses),
	}
}

// mostItems is the server's limit of a page, whatever is asked for. Comments have no pages.
const mostItems = 2

// paged returns a page of a list.
func paged(do func(d *Data, r *http.Request) (int, any)) func(d *Data, r *http.Request) (int, any) {
	return func(d *Data, r *http.Request) (int, any) {
		code, got := do(d, r)
		list, _ := got.([]object)
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		from := min((max(page, 1)-1)*mostItems, len(list))
		return code, list[from:min(from+mostItems, len(list))]
	}
}

// lineReview is the review that all comments on lines belong to.
const lineReview = 1

// permission says what somebody may do: what their comments say. Who does not administer the repository may ask about
// themselves only.
func (s *Server) permission(d *Data, r *http.Request) (int, any) {
	who, may := r.PathValue("who"), "read"
	if d.Plain && who != Me {
		return http.StatusForbidden, object{"message": "Only admins can query all permissions"}
	}
	for _, p := range d.Requests {
		for _, c := range p.Said {
			if c.By == who && (c.As == "MEMBER" || c.As == "COLLABORATOR" || c.As == "OWNER") {
				may = "write"
			}
		}
	}
	return http.StatusOK, object{"permission": may}
}

// tea returns a pull request as Gitea does.
func (s *Server) tea(p *Request) object {
	o := s.pull(p)
	o["merged"] = p.Fused
	delete(o, "draft")
	return o
}

func (s *Server) teaPulls(d *Data, r *http.Request) (int, any) {
	list := []object{}
	for _, p := range d.Requests {
		list = append(list, s.tea(p))
	}
	return http.StatusOK, list
}

func (s *Server) teaPull(d *Data, r *http.Request) (int, any) {
	p := d.request(number(r))
	if p == nil {
		return http.StatusNotFound, nothing
	}
	return http.StatusOK, s.tea(p)
}

func (s *Server) teaReviews(d *Data, r *http.Request) (int, any) {
	code, got := s.reviews(d, r)
	list, _ := got.([]object)
	return code, append(list, object{"id": lineReview, "user": login(Owner), "body": ""})
}

func (s *Server) teaLines(d *Data, r *http.Request) (int, any) {
	code, got := s.lineComments(d, r)
	list, _ := got.([]object)
	for _, o := range list {
		o["position"] = o["line"]
		delete(o, "line")
	}
	return code, list
}

func (s *Server) teaStatuses(d *Data, r *http.Request) (int, any) {
	list := []object{}
	for _, c := range d.Checks[r.PathValue("sha")] {
		end := c.Log[max(0, len(c.Log)-100):]
		list = append(list, object{"id": c.ID, "context": c.Name, "description": end,
			"status": strings.NewReplacer("queued", "pending").Replace(c.State)})
	}
	return http.StatusOK, list
}
