import { NfltrError } from '../../src/core/errors.ts'
import type { Workspaces } from '../../src/ports/workspaces.ts'

/** Folders by name alone. `offers` maps an offer's name to its path. */
export class SimulatedWorkspaces implements Workspaces {
  readonly offers: Readonly<Record<string, string>>
  free = 1024 ** 3
  readonly discarded: string[] = []

  constructor(offers: Readonly<Record<string, string>> = {}) {
    this.offers = offers
  }

  async prepare(request: Parameters<Workspaces['prepare']>[0]): ReturnType<Workspaces['prepare']> {
    const root = `/agents/${request.agentId}/${request.originAttemptId}`
    return {
      path: request.dir === undefined ? `${root}/workspace` : this.#below(request.dir),
      privateDir: `${root}/private`,
      tmpDir: `${root}/tmp/${request.attemptId}`,
    }
  }

  async discardTemporary(request: Parameters<Workspaces['discardTemporary']>[0]): Promise<void> {
    this.discarded.push(request.attemptId)
  }

  async freeBytes(): Promise<number> {
    return this.free
  }

  #below(dir: string): string {
    const [name = '', ...rest] = dir.split('/')
    const offer = this.offers[name]
    if (offer === undefined) {
      throw new NfltrError('launch_failed', `${name} is not offered.`, { details: { reason: 'dir_not_offered' } })
    }
    return [offer, ...rest].join('/')
  }
}
