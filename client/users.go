package client

import (
	"context"
	"net/http"
	"net/url"
)

// Grant is what a user may do, and with which topics.
type Grant struct {
	Action   string   `json:"action"`             // produce, consume, create or admin
	Patterns []string `json:"patterns,omitempty"` // names of topics, or prefixes with a * behind them; none for admin
}

// User is a user as the server describes it.
type User struct {
	Name        string  `json:"username"`
	Grants      []Grant `json:"grants,omitempty"`
	Root        bool    `json:"root,omitempty"`
	CreatedAtMs int64   `json:"created_at_ms"`
	UpdatedAtMs int64   `json:"updated_at_ms"`
}

// CreateUser creates a user.
func (c *Client) CreateUser(ctx context.Context, name, password string, grants []Grant) (u User, err error) {
	body := struct {
		Name     string  `json:"username"`
		Password string  `json:"password"`
		Grants   []Grant `json:"grants,omitempty"`
	}{name, password, grants}
	return u, c.change(ctx, call{method: http.MethodPost, path: "/v1/users", want: http.StatusCreated}, body, &u)
}

// Users returns all users, in the order of their names.
func (c *Client) Users(ctx context.Context) (all []User, err error) {
	return all, c.get(ctx, "/v1/users", "", &all)
}

// User describes one user.
func (c *Client) User(ctx context.Context, name string) (u User, err error) {
	return u, c.get(ctx, userPath(name, ""), "", &u)
}

// DeleteUser deletes a user. The topics that it owns belong to nobody then.
func (c *Client) DeleteUser(ctx context.Context, name string) error {
	return c.change(ctx, call{method: http.MethodDelete, path: userPath(name, ""), want: http.StatusNoContent, maybe: mayBeDone, done: isAbsent}, nil, nil)
}

// SetGrants replaces the grants of a user.
func (c *Client) SetGrants(ctx context.Context, name string, grants []Grant) (u User, err error) {
	if grants == nil {
		grants = []Grant{}
	}
	body := struct {
		Grants []Grant `json:"grants"`
	}{grants}
	return u, c.change(ctx, call{method: http.MethodPut, path: userPath(name, "/grants"), want: http.StatusOK}, body, &u)
}

// SetPassword changes a password. Whoever changes the own one gives the current one too.
func (c *Client) SetPassword(ctx context.Context, name, password, current string) error {
	body := struct {
		New     string `json:"new_password"`
		Current string `json:"current_password,omitempty"`
	}{password, current}
	return c.change(ctx, call{method: http.MethodPut, path: userPath(name, "/password"), want: http.StatusNoContent}, body, nil)
}

func userPath(name, verb string) string { return "/v1/users/" + url.PathEscape(name) + verb }
