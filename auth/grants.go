package auth

import (
	"strings"

	"narad/metastore"
)

// Action is something that a user does with a topic, or with the node.
type Action uint8

// The actions. Administrators may do all of them.
const (
	Produce Action = iota // store messages
	Consume               // lease, settle and replay messages
	Create                // create a topic of this name
	Read                  // describe a topic
	Manage                // alter, delete, attach, detach
	Admin                 // users, cluster, remotes; names no topic
)

// granted are the actions that grants name.
var granted = map[Action]string{
	Produce: metastore.ActionProduce, Consume: metastore.ActionConsume, Create: metastore.ActionCreate,
}

// May reports whether a user may do this to the topic of that name and owner, which is empty when nobody owns it:
//
//   - an administrator may do everything
//   - produce, consume and create need a grant of that action whose pattern matches the name
//   - reading needs any grant that matches the name, or ownership
//   - managing needs ownership, which gives neither produce nor consume
//
// It answers from memory.
func (a *Authenticator) May(user string, action Action, topic, owner string) bool {
	account, exists := a.account(user)
	return exists && may(&account.user, action, topic, owner)
}

func may(u *metastore.User, action Action, topic, owner string) bool {
	if IsAdmin(u) {
		return true
	}
	owns := owner != "" && owner == u.Name
	switch action {
	case Produce, Consume, Create:
		return matches(u.Grants, granted[action], topic)
	case Read:
		return owns || matches(u.Grants, "", topic)
	case Manage:
		return owns
	default:
		return false
	}
}

// IsAdmin reports whether a user passes every check.
func IsAdmin(u *metastore.User) bool {
	if u.Root {
		return true
	}
	for i := range u.Grants {
		if u.Grants[i].Action == metastore.ActionAdmin {
			return true
		}
	}
	return false
}

// matches reports whether a grant of an action, "" for any, has a pattern that matches a topic.
func matches(grants []metastore.Grant, action, topic string) bool {
	for i := range grants {
		if action != "" && grants[i].Action != action {
			continue
		}
		for _, pattern := range grants[i].Patterns {
			if start, any := strings.CutSuffix(pattern, "*"); any && strings.HasPrefix(topic, start) || pattern == topic {
				return true
			}
		}
	}
	return false
}
