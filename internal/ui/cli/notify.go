package cli

import (
	"context"

	"github.com/plait-run/plait/internal/app/people/notify"
	"github.com/plait-run/plait/internal/record/store"
)

// watch returns a function that notifies the person of driven tasks, or nil if they want no notifications.
func (a *app) watch(w *workplace) func(ctx context.Context, row store.Thread) (stop func()) {
	to := w.settings.Notify.V
	if len(to.Command) == 0 && to.Webhook == "" {
		return nil
	}
	return func(ctx context.Context, row store.Thread) (stop func()) {
		return notify.Watch(ctx, w.view(), a.notifier(notify.Config{To: to, Dir: w.home, Log: a.log}), row)
	}
}

// notifier returns the sender of notifications, one for all workplaces: the person's own configuration says where to.
func (a *app) notifier(cfg notify.Config) *notify.Sender {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sender == nil {
		a.sender = notify.NewSender(cfg)
	}
	return a.sender
}
