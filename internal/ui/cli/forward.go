package cli

import (
	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent/gateway"
)

// forwardCmd starts an agent in a sandbox. It is not meant for users.
func (a *app) forwardCmd() *cobra.Command {
	return &cobra.Command{
		Use: gatewayForward + " SOCKET PROGRAM [ARG...]", Hidden: true, DisableFlagParsing: true,
		Short: "Run a program that can reach only its model",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := gateway.Forward(cmd.Context(), args[0], args[1], args[2:])
			a.code = code
			return err
		},
	}
}

const gatewayForward = "gateway-forward"
