import { readdirSync, readFileSync } from 'node:fs'

/** Milliseconds that all threads of a process were on a processor, from the scheduler's own account. */
export function processorMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  return threads.reduce((sum, thread) => {
    const [nanoseconds = '0'] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')
    return sum + Number(nanoseconds) / 1e6
  }, 0)
}

/** How often a process was put on a processor: what wakes it, counted. */
export function wakes(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => {
    const [, , times = '0'] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').trim().split(' ')
    return sum + Number(times)
  }, 0)
}

export interface Memory {
  /** All that is mapped in and in memory, shared pages whole. */
  readonly residentMib: number
  /** Shared pages counted by their share. */
  readonly proportionalMib: number
}

export function memoryOf(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  const mib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) / 1024
  return { residentMib: mib('Rss'), proportionalMib: mib('Pss') }
}

/** Processes whose parent is this one. */
export function childrenOf(pid: number): readonly number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  )
}
