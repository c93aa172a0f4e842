package web

import (
	"embed"
	"net/http"
	"path"
)

//go:embed static page
var assets embed.FS

// kinds are the media types of static files.
var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml"}

func (s *Server) static(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	data, err := assets.ReadFile(path.Join("static", path.Base(name)))
	kind, known := kinds[path.Ext(name)]
	if err != nil || !known {
		return notFound("there is no file %q", name)
	}
	w.Header().Set("Content-Type", kind)
	w.Write(data) // the client may have disconnected
	return nil
}
