package server

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"narad/auth"
	"narad/metastore"
)

// The routes of users (narad-facts 1.8). An administrator is needed for all of them but the change of the own password.
// While security is off everybody is one.
func (s *Server) userRoutes() []route {
	return []route{
		{"POST /v1/users", s.createUser},
		{"GET /v1/users", s.listUsers},
		{"GET /v1/users/{user}", s.getUser},
		{"DELETE /v1/users/{user}", s.deleteUser},
		{"PUT /v1/users/{user}/grants", s.putGrants},
		{"PUT /v1/users/{user}/password", s.putPassword},
	}
}

func denied(text string) error { return &Error{Status: http.StatusForbidden, Text: text} }

var (
	errOnlyRootGrants   = denied("only the root user grants admin")
	errOwnGrants        = denied("nobody changes the own grants")
	errRootGrants       = denied("the grants of the root user are fixed")
	errOwnDeletion      = denied("nobody deletes the own user")
	errRootName         = &Error{Status: http.StatusConflict, Text: "the name " + auth.RootName + " is the root user's"}
	errRootDeletion     = denied("the root user cannot be deleted")
	errRootPassword     = denied("only the root user changes its password")
	errCurrentPassword  = denied("current_password is wrong")
	errNoCurrent        = badRequest("current_password is missing")
	errPasswordLength   = badRequest(auth.ErrPassword.Error())
	errGrantsMissing    = badRequest("grants is missing")
	errUserBodyTooLarge = badRequest("the request body is larger than 1 MiB")
)

func (s *Server) users() metastore.Store { return s.engine.Metastore() }

// passwords hashes and verifies passwords. While security is off it is made when it is needed.
func (s *Server) passwords() (*auth.Authenticator, error) {
	if a, ok := s.opts.Auth.(*userAuth); ok {
		return a.users, nil
	}
	s.ownPasswords.once.Do(func() { s.ownPasswords.auth, s.ownPasswords.err = auth.New(s.users(), auth.Options{}) })
	return s.ownPasswords.auth, s.ownPasswords.err
}

// lazyPasswords is an authenticator that is made at first use.
type lazyPasswords struct {
	once sync.Once
	auth *auth.Authenticator
	err  error
}

// decodeUserBody decodes the body of a route of users, where one that is too large is a bad request.
func (x *exchange) decodeUserBody(into any) error {
	body, err := x.body(bodyMax)
	if errors.Is(err, errBodyTooLarge) {
		return errUserBodyTooLarge
	}
	if err != nil {
		return err
	}
	return decodeStrict(body, into)
}

// asAdmin refuses whoever is no administrator.
func (x *exchange) asAdmin() error { return x.may(ActionAdmin, "", "") }

// isRoot reports whether the root user asks, or security is off.
func (x *exchange) isRoot() bool {
	if x.s.opts.Auth == nil {
		return true
	}
	u, ok := x.s.users().User(x.user)
	return ok && u.Root
}

// isSelf reports whether the user of the path is the one who asks.
func (x *exchange) isSelf() bool { return x.s.opts.Auth != nil && x.user == x.r.PathValue("user") }

// named returns the user of the path.
func (x *exchange) named() (metastore.User, error) {
	u, ok := x.s.users().User(x.r.PathValue("user"))
	if !ok {
		return u, metastore.ErrUserNotFound
	}
	return u, nil
}

// changedUser notes who changed whom.
func (x *exchange) changedUser(what, name string) {
	x.s.opts.Logger.Info(what, "user", name, "by", x.user)
}

func (s *Server) createUser(x *exchange) error {
	if err := x.asAdmin(); err != nil {
		return err
	}
	var req struct {
		Username string            `json:"username"`
		Password string            `json:"password"`
		Grants   []metastore.Grant `json:"grants"`
	}
	if err := x.decodeUserBody(&req); err != nil {
		return err
	}
	if err := metastore.ValidateUserName(req.Username); err != nil {
		return badf("%s", err)
	}
	if req.Username == auth.RootName { // also while there is none: a node makes it when it starts with security on
		return errRootName
	}
	if err := x.mayGrant(req.Grants); err != nil {
		return err
	}
	hash, err := x.hash(req.Password)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	u := metastore.User{Name: req.Username, PasswordHash: hash, Grants: req.Grants, CreatedAtMs: now, UpdatedAtMs: now}
	if err := s.users().CreateUser(u); err != nil {
		return err
	}
	x.changedUser("a user was created", u.Name)
	return x.value(http.StatusCreated, u)
}

// hash returns the hash of a new password.
func (x *exchange) hash(password string) ([]byte, error) {
	if auth.CheckPassword(password) != nil {
		return nil, errPasswordLength
	}
	passwords, err := x.s.passwords()
	if err != nil {
		return nil, err
	}
	hash, err := passwords.Hash(x.r.Context(), password)
	if err != nil && x.left() {
		return nil, errClientLeft
	}
	return hash, err
}

// mayGrant checks the form of grants, and that only the root user gives admin.
func (x *exchange) mayGrant(grants []metastore.Grant) error {
	if err := metastore.ValidateGrants(grants); err != nil {
		return badf("%s", err)
	}
	admin := false
	for _, g := range grants {
		if admin = admin || g.Action == metastore.ActionAdmin; g.Action != metastore.ActionAdmin && len(g.Patterns) == 0 {
			return badf("a grant of %s needs patterns: names of topics, or prefixes followed by *", g.Action)
		}
	}
	if admin && !x.isRoot() {
		return errOnlyRootGrants
	}
	return nil
}

func (s *Server) listUsers(x *exchange) error {
	if err := x.asAdmin(); err != nil {
		return err
	}
	all := s.users().Users()
	if all == nil {
		all = []metastore.User{}
	}
	return x.value(http.StatusOK, all)
}

func (s *Server) getUser(x *exchange) error {
	if err := x.asAdmin(); err != nil {
		return err
	}
	u, err := x.named()
	if err != nil {
		return err
	}
	return x.value(http.StatusOK, u)
}

func (s *Server) deleteUser(x *exchange) error {
	if err := x.asAdmin(); err != nil {
		return err
	}
	u, err := x.named()
	switch {
	case err != nil:
		return err
	case u.Root:
		return errRootDeletion
	case x.isSelf():
		return errOwnDeletion
	}
	if err := s.users().DeleteUser(u.Name); err != nil {
		return err
	}
	x.changedUser("a user was deleted", u.Name)
	return x.noContent()
}

func (s *Server) putGrants(x *exchange) error {
	if err := x.asAdmin(); err != nil {
		return err
	}
	var req struct {
		Grants *[]metastore.Grant `json:"grants"`
	}
	if err := x.decodeUserBody(&req); err != nil {
		return err
	}
	if req.Grants == nil {
		return errGrantsMissing
	}
	u, err := x.named()
	switch {
	case err != nil:
		return err
	case u.Root:
		return errRootGrants
	case x.isSelf():
		return errOwnGrants
	}
	if err := x.mayGrant(*req.Grants); err != nil {
		return err
	}
	if err := s.users().SetGrants(u.Name, *req.Grants, time.Now().UnixMilli()); err != nil {
		return err
	}
	x.changedUser("the grants of a user were changed", u.Name)
	if u, err = x.named(); err != nil { // as it is now
		return err
	}
	return x.value(http.StatusOK, u)
}

func (s *Server) putPassword(x *exchange) error {
	if !x.isSelf() {
		if err := x.asAdmin(); err != nil {
			return err
		}
	}
	var req struct {
		New     string  `json:"new_password"`
		Current *string `json:"current_password"`
	}
	if err := x.decodeUserBody(&req); err != nil {
		return err
	}
	u, err := x.named()
	if err != nil {
		return err
	}
	if u.Root && !x.isRoot() {
		return errRootPassword
	}
	if x.isSelf() {
		if err := x.proves(req.Current); err != nil {
			return err
		}
	}
	hash, err := x.hash(req.New)
	if err != nil {
		return err
	}
	if err := s.users().SetPassword(u.Name, hash, time.Now().UnixMilli()); err != nil {
		return err
	}
	x.changedUser("the password of a user was changed", u.Name)
	return x.noContent()
}

// proves wants the current password of the user who asks. Guesses are counted like failed logins.
func (x *exchange) proves(current *string) error {
	if current == nil || *current == "" {
		return errNoCurrent
	}
	passwords, err := x.s.passwords()
	if err != nil {
		return err
	}
	err = loginError(passwords.Verify(x.r.Context(), x.user, *current))
	if err == errCredentials {
		return errCurrentPassword
	}
	return err
}
