// Package connector is the guard at the bot's door and the way out to the
// channels.
//
// [Guard] decides whether an inbound activity comes from the Bot Framework: it
// checks the channel's token against keys that it fetches and keeps. [Callers] are
// who may come in otherwise. [Client] calls the Connector REST API with tokens of
// [Tokens]. [ServiceHosts] says which hosts the bot may talk to at all; both sides
// ask it, so that no forged serviceUrl ever sees the bot's token. [Adapter] puts the
// same parts under the interfaces of msbotbuilder-go.
//
// # The way out
//
// A conversation is named by the reference that an activity gives
// ([activity.Activity.Reference]) or that was kept of one. In it, a [Client] sends
// ([Client.Send], [Client.Reply]), changes what was sent ([Client.Update],
// [Client.Delete]) and asks who is there ([Client.Members]). It begins conversations
// ([Client.CreateConversation]) and threads in channels of Teams ([Client.NewThread]),
// asks about teams ([Client.Team]), and fetches pictures and files ([Client.Download]).
//
// Each call has a deadline, keeps the limits of Teams, and is made again where that can
// help and nowhere else; see [Client]. Errors are of three kinds: [*Error], what a
// connector answered; [*TokenError], no token for the call; and those that wrap
// [ErrBadCall], [ErrHostNotAllowed], [ErrNoAnswer], [ErrHeldBack] or [ErrTooLarge].
//
// # Rules
//
// They are those of the Bot Framework's authentication specification
// (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication)
// and, where that is silent, the stricter one of Microsoft's SDKs.
package connector
