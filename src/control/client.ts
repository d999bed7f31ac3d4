import type { ClientRequest, IncomingMessage } from 'node:http'
import { NfltrError } from '../core/errors.ts'
import type { AccountPage } from '../core/hub-account.ts'
import type { NodeAccount } from '../core/node-account.ts'
import type {
  BackupDocument,
  Hold,
  HubApi,
  HubStatusDocument,
  NodeApi,
  ReceiptDocument,
  SessionIdentity,
  ToolCall,
  ToolReply,
} from '../ports/hub-api.ts'
import { errorFromDocument } from './error-document.ts'
import { http } from './node-http.ts'
import { paths } from './schema/requests.ts'

/** Where a process of ours listens, and the token that opens it. */
export interface ControlEndpoint {
  readonly socketPath: string
  readonly token: string
}

/** A hub in another process. Every method throws `not_running` when nobody listens, `link_down` when the hub went away. */
export interface HubClient extends HubApi {
  /** Resolves once the hub that holds this session is gone. */
  hold(session: SessionIdentity): Promise<Hold & { readonly lost: Promise<void> }>
}

export function hubClient(endpoint: ControlEndpoint): HubClient {
  return {
    hold: (session) => hold(endpoint, session),
    call: (call) => callTool(endpoint, call),
    confirm: async (callKey) => void (await json(endpoint, 'POST', paths.confirm, { call_key: callKey })),
    withdraw: async (callKey) => void (await json(endpoint, 'POST', paths.withdraw, { call_key: callKey })),
    doubt: async (callKey) => void (await json(endpoint, 'POST', paths.doubt, { call_key: callKey })),
    status: () => json<HubStatusDocument>(endpoint, 'GET', paths.status),
    showAgent: (agentId) => json(endpoint, 'GET', paths.agent.replace(':id', encodeURIComponent(agentId))),
    receipt: (agentId, { turn }) => {
      const path = paths.receipt.replace(':id', encodeURIComponent(agentId))
      return json<ReceiptDocument>(endpoint, 'GET', turn === undefined ? path : `${path}?turn=${turn}`)
    },
    logs: async (agentId, { fromSeq, limit }) => {
      const path = `${paths.logs.replace(':id', encodeURIComponent(agentId))}?from_seq=${fromSeq}&limit=${limit}`
      const page = await json(endpoint, 'GET', path)
      const events = Array.isArray(page['events']) ? (page['events'] as Record<string, unknown>[]) : []
      const nextSeq = page['next_seq']
      return { events, ...(typeof nextSeq === 'number' ? { nextSeq } : {}) }
    },
    account: (from) => json<AccountPage>(endpoint, 'GET', paths.account + query({ from })),
    nodeAccount: (peerId, after) =>
      json<NodeAccount>(
        endpoint,
        'GET',
        paths.nodeAccount.replace(':id', encodeURIComponent(peerId)) + query({ after }),
      ),
    backup: ({ file }) => json<BackupDocument>(endpoint, 'POST', paths.backup, { file }),
    stop: async () => void (await json(endpoint, 'POST', paths.stop, {})),
  }
}

export function nodeClient(endpoint: ControlEndpoint): NodeApi {
  return {
    status: () => json(endpoint, 'GET', paths.status),
    leave: ({ isForced }) => json(endpoint, 'POST', paths.leave, { is_forced: isForced }),
    account: (hubId, after) => json<NodeAccount>(endpoint, 'GET', paths.account + query({ hub_id: hubId, after })),
  }
}

/** The query of a request, of what is there. */
function query(fields: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(fields).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, value]],
  )
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`
}

async function hold(endpoint: ControlEndpoint, session: SessionIdentity): Promise<Hold & { lost: Promise<void> }> {
  const { pid, host, since, sessionKey } = session
  const sent = open(endpoint, 'POST', paths.hold, { pid, host, since, session_key: sessionKey })
  const response = await sent.response
  const first = await jsonLines(response).next()
  if (first.done === true) throw new NfltrError('link_down', 'The hub went away before it answered.')
  if (first.value['event'] !== 'held') throw errorFromDocument(first.value)
  const lost = new Promise<void>((resolve) => response.once('close', () => resolve()))
  response.resume()
  return {
    lost,
    release: async () => {
      sent.request.destroy()
      await lost
    },
  }
}

async function callTool(endpoint: ControlEndpoint, call: ToolCall): Promise<ToolReply> {
  const body = { tool: call.tool, args: call.args, call_key: call.callKey, session_key: call.sessionKey }
  const sent = open(endpoint, 'POST', paths.call, body)
  const cancel = (): void => void sent.request.destroy()
  call.signal?.addEventListener('abort', cancel, { once: true })
  try {
    for await (const line of jsonLines(await sent.response)) {
      if (line['event'] === 'progress') call.onProgress?.(String(line['note']))
      else if (line['event'] === 'reply' && typeof line['body'] === 'string') return { body: line['body'] }
      else throw errorFromDocument(line)
    }
    throw new NfltrError('link_down', 'The hub went away before it answered.')
  } finally {
    call.signal?.removeEventListener('abort', cancel)
  }
}

/** The body is the peer process's word: it runs this same program. */
async function json<Document = Record<string, unknown>>(
  endpoint: ControlEndpoint,
  method: string,
  path: string,
  body?: object,
): Promise<Document> {
  const response = await open(endpoint, method, path, body).response
  const chunks: Buffer[] = []
  try {
    for await (const chunk of response) chunks.push(chunk as Buffer)
  } catch (cause) {
    throw new NfltrError('link_down', 'The process went away before it answered.', { cause })
  }
  const document: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'))
  if (response.statusCode !== 200) throw errorFromDocument(document)
  return document as Document
}

function open(
  endpoint: ControlEndpoint,
  method: string,
  path: string,
  body?: object,
): { readonly request: ClientRequest; readonly response: Promise<IncomingMessage> } {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const sent = http.request({
    socketPath: endpoint.socketPath,
    method,
    path,
    agent: false,
    headers: {
      authorization: `Bearer ${endpoint.token}`,
      ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    },
  })
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve)
    sent.on('error', (cause: NodeJS.ErrnoException) => {
      const isAbsent = cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED'
      reject(
        isAbsent
          ? new NfltrError('not_running', 'Nothing listened on the control socket.', {
              hint: 'The hub or node ended meanwhile: start it again.',
              cause,
            })
          : new NfltrError('link_down', 'The control connection broke.', { cause }),
      )
    })
  })
  sent.end(text)
  return { request: sent, response }
}

/** Lines of a streamed answer; a refusal before the stream began is one document, which reads as one line. */
async function* jsonLines(response: IncomingMessage): AsyncGenerator<Record<string, unknown>, void> {
  // Pieces of a line are joined once, when its end is there: a long line must not be scanned again with each chunk.
  let pieces: string[] = []
  const decoder = new TextDecoder()
  try {
    for await (const chunk of response.iterator({ destroyOnReturn: false })) {
      const [first = '', ...more] = decoder.decode(chunk as Buffer, { stream: true }).split('\n')
      pieces.push(first)
      for (const next of more) {
        yield JSON.parse(pieces.join('')) as Record<string, unknown>
        pieces = [next]
      }
    }
  } catch (cause) {
    throw new NfltrError('link_down', 'The hub went away before it answered.', { cause })
  }
  const rest = pieces.join('')
  if (rest !== '') yield JSON.parse(rest) as Record<string, unknown>
}
