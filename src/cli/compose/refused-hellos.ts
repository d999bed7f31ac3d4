import type { RefusalNotice } from '../../mesh/peers.ts'

/** Why hellos were refused, for a status document: who was not let in here, or why this process was not. */
export function refusedHellos(
  notices: readonly RefusalNotice[],
  own: 'this_node' | 'this_hub' | 'this_command',
): readonly { readonly code: string; readonly message: string; readonly by: string }[] {
  return notices.map(({ code, message, isByPeer }) => ({ code, message, by: isByPeer ? 'peer' : own }))
}
