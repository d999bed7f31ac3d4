/**
 * Every failure a caller may branch on: one vocabulary for the wire, the tools, the command line and the exit codes.
 * `docs/reference/errors.md` lists each with its meaning; a test keeps both equal.
 */
export const errorCodes = {
  // A person or a program asked for something malformed.
  invalid_argument: { remedy: 'change', exit: 2 },
  unknown_tool: { remedy: 'change', exit: 2 },
  already_exists: { remedy: 'change', exit: 2 },
  idempotency_conflict: { remedy: 'change', exit: 1 },
  not_found: { remedy: 'change', exit: 1 },
  // Trust and policy.
  no_mesh: { remedy: 'change', exit: 3 },
  no_invite: { remedy: 'change', exit: 3 },
  invite_invalid: { remedy: 'change', exit: 3 },
  invite_used: { remedy: 'change', exit: 3 },
  invite_expired: { remedy: 'change', exit: 3 },
  knock_pending: { remedy: 'wait', exit: 4 },
  knock_denied: { remedy: 'change', exit: 3 },
  wrong_mesh: { remedy: 'change', exit: 3 },
  not_a_member: { remedy: 'never', exit: 3 },
  membership_expired: { remedy: 'change', exit: 3 },
  revoked: { remedy: 'never', exit: 3 },
  mesh_closed: { remedy: 'never', exit: 3 },
  wrong_role: { remedy: 'change', exit: 3 },
  bad_certificate: { remedy: 'never', exit: 3 },
  bad_signature: { remedy: 'never', exit: 3 },
  own_peer_id: { remedy: 'never', exit: 3 },
  duplicate_identity: { remedy: 'change', exit: 3 },
  name_taken: { remedy: 'change', exit: 3 },
  not_owner: { remedy: 'change', exit: 3 },
  in_use: { remedy: 'wait', exit: 3 },
  owner_may_not_leave: { remedy: 'change', exit: 3 },
  insecure_permissions: { remedy: 'change', exit: 3 },
  stale_epoch: { remedy: 'never', exit: 3 },
  // Reach and capacity.
  unreachable: { remedy: 'wait', exit: 4 },
  timed_out: { remedy: 'wait', exit: 4 },
  no_issuer: { remedy: 'wait', exit: 1 },
  link_down: { remedy: 'wait', exit: 4 },
  not_running: { remedy: 'change', exit: 4 },
  node_lost: { remedy: 'change', exit: 1 },
  // Held by somebody else.
  hub_held: { remedy: 'wait', exit: 5 },
  store_held: { remedy: 'wait', exit: 5 },
  key_held: { remedy: 'wait', exit: 5 },
  // The peer's bytes.
  invalid_frame: { remedy: 'never', exit: 1 },
  frame_too_large: { remedy: 'never', exit: 1 },
  unsupported: { remedy: 'never', exit: 1 },
  protocol_violation: { remedy: 'never', exit: 1 },
  // The store and the machine.
  store_damaged: { remedy: 'change', exit: 1 },
  store_failed: { remedy: 'wait', exit: 1 },
  store_newer: { remedy: 'change', exit: 1 },
  disk_full: { remedy: 'change', exit: 1 },
  journal_damaged: { remedy: 'change', exit: 1 },
  path_too_long: { remedy: 'change', exit: 2 },
  keeper_gone: { remedy: 'change', exit: 1 },
  launch_failed: { remedy: 'change', exit: 1 },
  unsupported_platform: { remedy: 'never', exit: 2 },
  stopping: { remedy: 'wait', exit: 1 },
  restarting: { remedy: 'wait', exit: 1 },
  restart_storm: { remedy: 'change', exit: 1 },
  agent_closed: { remedy: 'change', exit: 1 },
  queue_full: { remedy: 'wait', exit: 1 },
  internal: { remedy: 'never', exit: 1 },
} as const satisfies Record<string, { readonly remedy: Remedy; readonly exit: number }>

export type ErrorCode = keyof typeof errorCodes

/** What the caller can do: `wait` — retry later; `change` — retry differently; `never` — stop. */
export type Remedy = 'wait' | 'change' | 'never'

export type ErrorDetails = Readonly<Record<string, unknown>>

/**
 * An expected, typed refusal or failure. `message` says what happened to what, in the past tense; `hint` names the
 * next step. Neither holds a secret or a brief.
 */
export class NfltrError extends Error {
  override readonly name = 'NfltrError'
  readonly code: ErrorCode
  readonly remedy: Remedy
  readonly hint: string | undefined
  readonly details: ErrorDetails

  constructor(
    code: ErrorCode,
    message: string,
    options: { hint?: string; details?: ErrorDetails; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.remedy = errorCodes[code].remedy
    this.hint = options.hint
    this.details = options.details ?? {}
  }
}

/** Marks the branch that no value reaches; the compiler proves it, the throw keeps a bug from passing silently. */
export function unreachable(value: never): never {
  throw new Error(`reached a branch for a value that should not exist: ${JSON.stringify(value)}`)
}
