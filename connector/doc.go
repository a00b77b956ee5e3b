// Package connector is the guard at the bot's door and the way out to the
// channels.
//
// [Guard] decides whether an inbound activity comes from the Bot Framework: it
// checks the channel's token against keys that it fetches and keeps. [Client]
// calls the Connector REST API with tokens of [Tokens]. [ServiceHosts] says
// which hosts the bot may talk to at all; both sides ask it, so that no forged
// serviceUrl ever sees the bot's token. [Adapter] puts the same parts under the
// interfaces of msbotbuilder-go.
//
// The rules are those of the Bot Framework's authentication specification
// (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication)
// and, where that is silent, the stricter one of Microsoft's SDKs.
package connector
