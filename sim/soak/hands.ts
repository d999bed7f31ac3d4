import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { isAlive, nameOf, type ProcessName, readProcess } from '../../src/platform/process-table.ts'
import type { SeededRandom } from '../random.ts'
import type { Kill, Phase, ProcessKind } from './cells.ts'
import type { Life } from './life.ts'
import type { Mesh } from './mesh.ts'
import { untilTrue } from './until.ts'

const longestRestMs = 300

/** Freezes, kills and starts again, and keeps count of what was killed in which phase. */
export class Hands {
  readonly killed: Kill[] = []
  /** Kills that found nothing to kill. */
  readonly missed: Kill[] = []
  readonly #mesh: Mesh
  readonly #life: Life
  readonly #random: SeededRandom
  #frozen: readonly ProcessName[] = []

  constructor(mesh: Mesh, life: Life, random: SeededRandom) {
    this.#mesh = mesh
    this.#life = life
    this.#random = random
  }

  /** A moment of drawn length. */
  async moment(longestMs: number): Promise<void> {
    await delay(this.#random.next() * longestMs)
  }

  /** How long it takes until somebody starts again what died. */
  async rest(): Promise<void> {
    await this.moment(longestRestMs)
  }

  async find(kind: ProcessKind): Promise<ProcessName | undefined> {
    switch (kind) {
      case 'node':
        return this.#mesh.nodeProcess
      case 'hub': {
        const hub = await this.#mesh.hub()
        return hub === undefined ? undefined : named(hub.pid)
      }
      case 'adapter':
        return named(this.#mesh.session.pid)
      case 'keeper':
        return (await this.#life.journal()).keeper ?? this.#life.startingKeeper()
      case 'agent':
        return (await this.#life.journal()).program
    }
  }

  /** Kills with signal 9, and counts it for this phase. A process that is not there counts as missed. */
  async kill(kind: ProcessKind, phase: Phase, target: ProcessName | undefined): Promise<boolean> {
    if (target === undefined || !isAlive(target) || !signal(target, 'SIGKILL')) {
      this.missed.push({ process: kind, phase })
      return false
    }
    this.killed.push({ process: kind, phase })
    // On a busy machine it takes a moment, and what still runs is not started again.
    await untilTrue('a killed process is gone', () => !isAlive(target))
    return true
  }

  freeze(target: ProcessName): void {
    if (isAlive(target) && signal(target, 'SIGSTOP')) this.#frozen = [...this.#frozen, target]
  }

  /** Lets everything run on that was frozen and is still there, or one process of it. */
  thaw(only?: ProcessName): void {
    const thawed = this.#frozen.filter(({ pid }) => only === undefined || pid === only.pid)
    this.#frozen = this.#frozen.filter((target) => !thawed.includes(target))
    for (const target of thawed) if (isAlive(target)) signal(target, 'SIGCONT')
  }
}

function named(pid: number): ProcessName | undefined {
  return readProcess(pid) === undefined ? undefined : nameOf(pid)
}

function signal({ pid }: ProcessName, name: NodeJS.Signals): boolean {
  try {
    process.kill(pid, name)
    return true
  } catch {
    // It ended in between.
    return false
  }
}
