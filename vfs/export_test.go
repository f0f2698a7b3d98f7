package vfs

// SetIdleRoom is for the tests outside of the package.
var SetIdleRoom = setIdleRoom
