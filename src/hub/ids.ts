type Sha256 = (text: string) => string

/**
 * The id of what a call makes, out of the call's own key: a hub whose store was put back to before the call gives the same ids
 * when it is repeated, and so knows again what its nodes have of it (rules 3 and 6).
 */
export function idOfCall(prefix: string, slotId: string, facts: { readonly hubId: string; sha256: Sha256 }): string {
  return prefix + facts.sha256(`nfltr/id/1:${prefix}:${facts.hubId}:${slotId}`).slice(0, 32)
}

/** The id of the turn that a message becomes, should it become one: always the same. */
export function turnOfMessage(messageId: string, sha256: Sha256): string {
  return `tsk_${sha256(`nfltr/turn/1:${messageId}`).slice(0, 32)}`
}
