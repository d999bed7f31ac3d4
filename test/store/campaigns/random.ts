/** Numbers from a seed: mulberry32. */
export interface Random {
  /** From 0 up to, and without, `below`. */
  below(below: number): number
}

export function seeded(seed: number): Random {
  let state = seed >>> 0
  return {
    below(below) {
      state = (state + 0x6d2b79f5) >>> 0
      let mixed = Math.imul(state ^ (state >>> 15), state | 1)
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
      return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
    },
  }
}
