package web

import (
	"net/http"

	"github.com/plait-run/plait/internal/view"
)

func (s *Server) hostsPage(w http.ResponseWriter, r *http.Request) error {
	hosts, err := s.views.Hosts(r.Context())
	if err != nil {
		return err
	}
	workers, err := s.views.Workers(r.Context())
	if err != nil {
		return err
	}
	body := struct {
		Hosts   []view.Host
		Workers []view.Worker
	}{hosts, workers}
	return s.show(w, r, http.StatusOK, "hosts", page{Title: "Hosts", Nav: "hosts", Types: stateEvents, Body: body})
}
