package server

import (
	"context"
	"errors"
	"net/http"

	"narad/auth"
)

// NewAuth returns an [Auth] that asks an authenticator.
func NewAuth(a *auth.Authenticator) Auth { return &userAuth{a} }

type userAuth struct{ users *auth.Authenticator }

var (
	errCredentials = &Error{Status: http.StatusUnauthorized, Text: auth.ErrCredentials.Error()}
	errTooManyBad  = &Error{Status: http.StatusTooManyRequests, Text: auth.ErrTooMany.Error(), RetryAfter: 12}
)

// Authenticate implements [Auth] with HTTP Basic.
func (a *userAuth) Authenticate(r *http.Request) (string, error) {
	name, password, given := r.BasicAuth()
	if !given {
		return "", errCredentials
	}
	return name, loginError(a.users.Verify(r.Context(), name, password))
}

// loginError returns what a client is told of a failed verification. It is the same whatever was wrong.
func loginError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, auth.ErrTooMany):
		return errTooManyBad
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errClientLeft
	default:
		return errCredentials
	}
}

// authActions are the actions as package auth has them.
var authActions = [...]auth.Action{
	ActionProduce: auth.Produce, ActionConsume: auth.Consume, ActionCreate: auth.Create, ActionRead: auth.Read,
	ActionManage: auth.Manage, ActionAdmin: auth.Admin,
}

// May implements [Auth].
func (a *userAuth) May(user string, action Action, topic, owner string) bool {
	return a.users.May(user, authActions[action], topic, owner)
}
