-- No table changes. From here on leases of tasks that have ended are removed.

-- token: the highest token of a lease that was removed. Later leases of any name have higher ones.
INSERT INTO plait.counters VALUES ('token', 0);

-- acquire takes a lease that nobody holds, or that a dead process or the one who asks
-- has let go of: whoever had it with the token p_dead. It returns the token; or 0, and
-- who holds it with which token.
CREATE OR REPLACE FUNCTION plait.acquire(
	p_name text, p_handle text, p_dead bigint, p_key bigint, OUT r_token bigint, OUT r_holder text, OUT r_held bigint
) LANGUAGE plpgsql AS $$
BEGIN
	r_token := 0;
	SELECT handle, token INTO r_holder, r_held FROM plait.leases WHERE name = p_name;
	IF FOUND AND r_held <> p_dead AND plait.alive(r_holder) THEN
		RETURN;
	END IF;
	-- No commit is under way that has looked at the fence already.
	PERFORM pg_advisory_xact_lock(p_key);
	SELECT handle, token INTO r_holder, r_held FROM plait.leases WHERE name = p_name;
	IF FOUND AND r_held <> p_dead AND plait.alive(r_holder) THEN
		RETURN;
	END IF;
	IF NOT plait.alive(p_handle) THEN
		RAISE EXCEPTION 'this process has not been heard of' USING ERRCODE = 'PL005';
	END IF;
	INSERT INTO plait.leases AS l SELECT p_name, value + 1, p_handle FROM plait.counters WHERE name = 'token'
		ON CONFLICT (name) DO UPDATE SET token = l.token + 1, handle = excluded.handle
		RETURNING l.token INTO r_token;
END $$;
