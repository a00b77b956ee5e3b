package activity

import "strings"

// callerApp begins the callerId of a bot (activity specification, appendix V).
const callerApp = "urn:botframework:aadappid:"

// CallerOf returns the callerId of the bot with that app id.
func CallerOf(appID string) string { return callerApp + appID }

// CallerApp returns the app id of the bot that the activity came from, or "" when it came
// from a channel or nobody knows.
func (a *Activity) CallerApp() string {
	app, ok := strings.CutPrefix(a.CallerID, callerApp)
	if !ok {
		return ""
	}
	return app
}
