/** Randomness. Implementations: the system's generator in `platform`, a seeded stream in the simulator. */
export interface Random {
  /** A number in [0, 1), for jitter and choices that need not be secret. */
  next(): number

  /** Unpredictable bytes where the implementation is the system's: keys, nonces, tokens and ids. */
  bytes(count: number): Uint8Array
}
