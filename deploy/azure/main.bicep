// A Teams bot on Azure: Container App, Azure Bot with the Teams channel, managed identity, Azure Managed Redis.
//
//   az group create -n planbot -l westeurope
//   az deployment group create -g planbot -f main.bicep -p image=… azureOpenAIEndpoint=… azureOpenAIDeployment=…
//
// The bot uses the managed identity towards Teams and Azure OpenAI, so it has no client secret and no
// key. README.md says how to give the identity its role on the Azure OpenAI resource.

@description('Short name; all resources are named after it.')
@minLength(3)
@maxLength(20)
param name string = 'planbot'

param location string = resourceGroup().location

@description('Image of the bot, such as registry.example.com/planbot:0.1.0.')
param image string

@description('https://NAME.openai.azure.com')
param azureOpenAIEndpoint string

param azureOpenAIDeployment string

var unique = '${name}-${uniqueString(resourceGroup().id)}'

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: name
  location: location
}

resource redis 'Microsoft.Cache/redisEnterprise@2025-04-01' = {
  name: unique
  location: location
  sku: {
    name: 'Balanced_B0'
  }
  properties: {
    highAvailability: 'Enabled'
    minimumTlsVersion: '1.2'
  }
}

resource database 'Microsoft.Cache/redisEnterprise/databases@2025-04-01' = {
  parent: redis
  name: 'default'
  properties: {
    accessKeysAuthentication: 'Enabled'
    clientProtocol: 'Encrypted'
    // The bot keeps all keys of a script in one slot, and each partition in a slot of its own.
    clusteringPolicy: 'OSSCluster'
    // A full Redis refuses writes; it must not forget what was acknowledged.
    evictionPolicy: 'NoEviction'
    persistence: {
      aofEnabled: true
      aofFrequency: '1s'
    }
    port: 10000
  }
}

resource logs 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: name
  location: location
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: 30
  }
}

resource environment 'Microsoft.App/managedEnvironments@2024-03-01' = {
  name: name
  location: location
  properties: {
    appLogsConfiguration: {
      destination: 'log-analytics'
      logAnalyticsConfiguration: {
        customerId: logs.properties.customerId
        sharedKey: logs.listKeys().primarySharedKey
      }
    }
  }
}

resource app 'Microsoft.App/containerApps@2024-03-01' = {
  name: name
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    environmentId: environment.id
    configuration: {
      ingress: {
        external: true
        targetPort: 3978
        allowInsecure: false
      }
      secrets: [
        {
          name: 'redis-url'
          value: 'rediss+cluster://:${uriComponent(database.listKeys().primaryKey)}@${redis.properties.hostName}:10000'
        }
      ]
    }
    template: {
      // More than BOT_DRAIN_TIMEOUT (20s), so that running turns finish.
      terminationGracePeriodSeconds: 30
      containers: [
        {
          name: 'bot'
          image: image
          resources: {
            cpu: json('0.5')
            memory: '1Gi'
          }
          env: [
            {
              name: 'BOT_ADDR'
              value: '0.0.0.0:3978'
            }
            {
              name: 'BOT_LOG_FORMAT'
              value: 'json'
            }
            {
              name: 'MICROSOFT_APP_TYPE'
              value: 'UserAssignedMSI'
            }
            {
              name: 'MICROSOFT_APP_ID'
              value: identity.properties.clientId
            }
            {
              name: 'MICROSOFT_APP_TENANT_ID'
              value: identity.properties.tenantId
            }
            {
              name: 'REDIS_URL'
              secretRef: 'redis-url'
            }
            {
              name: 'AZURE_OPENAI_ENDPOINT'
              value: azureOpenAIEndpoint
            }
            {
              name: 'AZURE_OPENAI_DEPLOYMENT'
              value: azureOpenAIDeployment
            }
            {
              name: 'AZURE_CLIENT_ID'
              value: identity.properties.clientId
            }
          ]
          probes: [
            {
              type: 'Liveness'
              httpGet: {
                path: '/healthz'
                port: 3978
              }
              periodSeconds: 10
              timeoutSeconds: 4
            }
            {
              type: 'Readiness'
              httpGet: {
                path: '/readyz'
                port: 3978
              }
              periodSeconds: 5
              timeoutSeconds: 4
            }
          ]
        }
      ]
      scale: {
        minReplicas: 2
        maxReplicas: 4
      }
    }
  }
}

resource bot 'Microsoft.BotService/botServices@2022-09-15' = {
  name: unique
  location: 'global'
  kind: 'azurebot'
  sku: {
    name: 'F0'
  }
  properties: {
    displayName: name
    endpoint: 'https://${app.properties.configuration.ingress.fqdn}/api/messages'
    msaAppId: identity.properties.clientId
    msaAppMSIResourceId: identity.id
    msaAppTenantId: identity.properties.tenantId
    msaAppType: 'UserAssignedMSI'
  }
}

resource teams 'Microsoft.BotService/botServices/channels@2022-09-15' = {
  parent: bot
  name: 'MsTeamsChannel'
  location: 'global'
  properties: {
    channelName: 'MsTeamsChannel'
  }
}

@description('For: bot manifest build --app-id … --domain …')
output appId string = identity.properties.clientId
output domain string = app.properties.configuration.ingress.fqdn
