package gate

import (
	"os"
	"os/user"
	"strconv"
)

// Person returns the name of the person at the keyboard, for Answer.By.
func Person() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "user " + strconv.Itoa(os.Getuid())
}
