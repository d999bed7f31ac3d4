/** What a node has on record of one attempt of a hub, as an audit holds it against the hub's own account. */
export interface NodeAttemptAccount {
  readonly agentId: string
  readonly taskId: string
  readonly attemptId: string
  readonly epoch: number
  readonly hubId: string
  /** A process of it may be running. */
  readonly isOpen: boolean
  /** SHA-256 of the result's text, hex; absent where the node keeps it no more, or not yet. */
  readonly textHash?: string
  readonly receiptId?: string
}

/** A page of it, by rising attempt id. */
export interface NodeAccount {
  readonly peerId: string
  readonly attempts: readonly NodeAttemptAccount[]
  /** The next page comes after this attempt, the last of this one; absent on the last page. */
  readonly next?: string
}

/** What a node says of one attempt to its hub: whose hub that is, both know. */
export type AttemptWord = Omit<NodeAttemptAccount, 'hubId'>

/** A page as it passes between them. */
export interface AccountAnswer {
  readonly attempts: readonly AttemptWord[]
  readonly isLast: boolean
}
