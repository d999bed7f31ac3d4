import process from 'node:process'
import { claudeVersion } from './lines.ts'
import type { Session } from './session.ts'
import { isRecord, ScenarioError } from './values.ts'

type Request = Readonly<Record<string, unknown>>

/** Fields a request may have beside `subtype`. A subtype that is not here is answered as an error, as by the real CLI. */
const fields: Readonly<Record<string, readonly string[]>> = {
  initialize: ['hooks'],
  interrupt: ['cancel_queued'],
  set_permission_mode: ['mode'],
  set_model: ['model'],
  cancel_async_message: ['message_uuid'],
  get_settings: [],
  get_hooks_listing: [],
  list_permission_rules: [],
  mcp_status: [],
  get_binary_version: [],
}

/**
 * Answers one control request of the host.
 *
 * @throws {ScenarioError} when a known request has a field the agent does not know
 */
export function answerControl(session: Session, id: string, request: Request): void {
  const subtype = String(request['subtype'])
  const known = fields[subtype]
  if (known === undefined) {
    const error = `Unsupported control request subtype: ${subtype}`
    respond(session, { subtype: 'error', request_id: id, error, error_code: 'unsupported_request' })
    return
  }
  const stranger = Object.keys(request).find((key) => key !== 'subtype' && !known.includes(key))
  if (stranger !== undefined) throw new ScenarioError(`control request ${subtype} has no field ${stranger}`)
  const answer = answers(session, subtype, request)
  if (typeof answer === 'string') respond(session, { subtype: 'error', request_id: id, error: answer })
  else respond(session, { subtype: 'success', request_id: id, response: answer })
}

/** @returns the response, or the text of an error */
function answers(session: Session, subtype: string, request: Request): object | string {
  switch (subtype) {
    case 'initialize':
      return initialize(session, request)
    case 'interrupt': {
      const cancelQueued = request['cancel_queued'] === true
      const { stillQueued, cancelled } = session.interrupt({ cancelQueued })
      return { still_queued: stillQueued, ...(cancelQueued ? { cancelled } : {}) }
    }
    case 'set_permission_mode':
      return setPermissionMode(session, String(request['mode']))
    case 'set_model':
      session.model = String(request['model'])
      return {}
    case 'cancel_async_message':
      return { cancelled: session.cancelMessage(String(request['message_uuid'])) }
    case 'get_settings':
      return settings(session)
    case 'get_hooks_listing':
      return { events: [], hooks: [], eventCatalog: [] }
    case 'list_permission_rules':
      return permissionRules(session)
    case 'mcp_status':
      return { mcpServers: session.mcp.states }
    default:
      return { version: claudeVersion }
  }
}

function initialize(session: Session, request: Request): object {
  if (isRecord(request['hooks']) && Object.keys(request['hooks']).length > 0) {
    throw new ScenarioError('hooks of the host are not played')
  }
  const facts = session.initFacts()
  return {
    commands: [],
    agents: [],
    models: [],
    account: { apiKeySource: facts.apiKeySource },
    pid: process.pid,
    claude_code_version: claudeVersion,
    current_permission_mode: facts.permissionMode,
    sandbox_enabled: false,
    session_state: session.busy ? 'running' : 'idle',
    output_style: 'default',
  }
}

function setPermissionMode(session: Session, mode: string): object | string {
  if (mode === 'bypassPermissions' && session.flags.permissionMode !== 'bypassPermissions') {
    return 'Cannot set permission mode to bypassPermissions because the session was not launched with --dangerously-skip-permissions'
  }
  session.setPermissionMode(mode)
  session.write({ type: 'system', subtype: 'status', status: null, permissionMode: mode, session_id: session.id })
  return { mode }
}

function settings(session: Session): object {
  const text = session.flags.settings
  const given: unknown = text === undefined ? {} : JSON.parse(text)
  const sources = text === undefined ? [] : [{ source: 'flagSettings', settings: given }]
  return { effective: given, sources, applied: { model: session.model, effort: null } }
}

function permissionRules(session: Session): object {
  const { allowedTools, disallowedTools } = session.flags
  const rules = [
    ...disallowedTools.map((rule) => ({ behavior: 'deny', source: 'cliArg', rule })),
    ...allowedTools.map((rule) => ({ behavior: 'allow', source: 'cliArg', rule })),
  ]
  return { state: { rules, workspaceDirectories: [], originalCwd: session.cwd, managedOnly: false } }
}

function respond(session: Session, response: object): void {
  session.write({ type: 'control_response', response })
}
