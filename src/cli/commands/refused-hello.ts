/** Why a hello was refused, as status documents have it. */
export interface RefusedHello {
  readonly code: string
  readonly message: string
  readonly by: string
}

/** The same for people. */
export function refusedLine({ code, message, by }: RefusedHello): string {
  return by === 'peer' ? `refused by another member: ${message} (${code})` : `refused here: ${message} (${code})`
}
